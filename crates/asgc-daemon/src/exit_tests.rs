//! `run_main` as whole processes: this test program starts itself, with `ROLE` saying what to be.

use super::*;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

const ROLE: &str = "ASGC_TEST_ROLE";
const PROGRAM: Program = Program {
    name: "asgc-test",
    version: "0.0.0",
};

/// Not a test by itself: what the processes run.
#[test]
fn child_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let set = match role.as_str() {
        "typo" => vec!["workload.lrr=1".into(), "workload.lr=0".into()],
        _ => vec![],
    };
    let args = ConfigArgs {
        set,
        metrics_listen: Some("127.0.0.1:0".into()),
        print_config: role == "print",
        ..ConfigArgs::default()
    };
    let code = run_main(PROGRAM, &args, &[], move |daemon| async move {
        println!("\nup {}", daemon.metrics_addr.is_some());
        match role.as_str() {
            "drain" => {
                daemon.shutdown.requested().await;
                // `set_ready` must not undo the drain.
                daemon.health.set_ready();
                println!("drained");
                Ok(ExitCode::SUCCESS)
            }
            "fail" => Err(BoxError::from("no room")),
            "panic" => panic!("a bug"),
            // Blocks its thread, as a computation would.
            _ => loop {
                std::thread::park();
            },
        }
    });
    // A test cannot return an exit code.
    std::process::exit(if code == ExitCode::SUCCESS {
        0
    } else {
        exit_number(code)
    });
}

fn exit_number(code: ExitCode) -> i32 {
    [FAILURE, USAGE, 130, 143]
        .into_iter()
        .find(|&n| ExitCode::from(n) == code)
        .map_or(99, i32::from)
}

fn start(role: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["exit::tests::child_process", "--exact", "--nocapture"])
        .env(ROLE, role)
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill")
        .args([format!("-{name}"), child.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

/// Reads lines of standard output until one starts with `word`.
fn until(lines: &mut impl Iterator<Item = std::io::Result<String>>, word: &str) -> String {
    lines
        .map(Result::unwrap)
        .find(|line| line.starts_with(word))
        .unwrap()
}

fn outcome(child: Child) -> (Option<i32>, String, String) {
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn one_signal_drains() {
    let mut child = start("drain");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(until(&mut lines, "up"), "up true");
    signal(&child, "TERM");
    until(&mut lines, "drained");
    assert_eq!(outcome(child).0, Some(0));
}

#[test]
fn a_second_signal_ends_also_what_blocks() {
    for (name, code) in [("TERM", 143), ("INT", 130)] {
        let mut child = start("block");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        until(&mut lines, "up");
        signal(&child, "TERM");
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        log.find(|line| line.as_ref().unwrap().contains("draining; a second signal"))
            .unwrap()
            .unwrap();
        signal(&child, name);
        assert_eq!(outcome(child).0, Some(code));
    }
}

#[test]
fn wrong_configuration_is_64_and_starts_nothing() {
    let (code, stdout, stderr) = outcome(start("typo"));
    assert_eq!(code, Some(64));
    assert!(!stdout.contains("\nup "), "{stdout}");
    assert!(
        stderr.contains("asgc-test: --set: workload.lrr: unknown key; did you mean workload.lr?\n"),
        "{stderr}"
    );
}

#[test]
fn failures_and_panics_are_1() {
    let (code, _, stderr) = outcome(start("fail"));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("no room"), "{stderr}");
    let (code, _, stderr) = outcome(start("panic"));
    assert_eq!(code, Some(1), "{stderr}");
}

#[test]
fn the_configuration_is_printed_with_its_sources() {
    let (code, stdout, _) = outcome(start("print"));
    assert_eq!(code, Some(0));
    assert!(
        stdout.contains("metrics_listen = \"127.0.0.1:0\"  # command line\n"),
        "{stdout}"
    );
    assert!(!stdout.contains("\nup "), "{stdout}");
}

#[test]
fn causes_are_told_once() {
    #[derive(Debug, thiserror::Error)]
    #[error("cannot start")]
    struct Outer(#[source] std::io::Error);
    let outer = Outer(std::io::Error::other("disk"));
    assert_eq!(chain(&outer), "cannot start: disk");
}
