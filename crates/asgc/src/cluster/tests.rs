//! Clusters whose processes are shell scripts.

use super::*;
use tempfile::TempDir;
use tokio::sync::mpsc::Sender;

/// Tells its address like a server.
const READY: &str =
    r#"echo "{\"grpc\":\"127.0.0.1:1\",\"metrics\":null,\"pid\":$$}" > $1/new; mv $1/new $1/endpoints.json"#;

struct Bed {
    dir: TempDir,
    signals: (Sender<u8>, Receiver<u8>),
    grace: Grace,
}

impl Bed {
    fn new() -> Self {
        let long = Duration::from_secs(60);
        Self {
            dir: tempfile::tempdir().unwrap(),
            signals: channel(4),
            grace: Grace {
                start: long,
                drain: long,
                follow: long,
                term: long,
            },
        }
    }

    fn spec(&self, name: &str, script: &str, trainer: bool) -> Spec {
        let folder = self.dir.path().display().to_string();
        Spec {
            name: name.into(),
            program: "/bin/sh".into(),
            args: ["-c".into(), script.to_owned(), name.to_owned(), folder].into(),
            log: self.dir.path().join(format!("{name}.log")),
            trainer,
        }
    }

    async fn run(&mut self, server: &str, workers: &[&str]) -> Result<Outcome> {
        let workers: Vec<_> = workers
            .iter()
            .enumerate()
            .map(|(id, script)| self.spec(&format!("worker-{id}"), script, true))
            .collect();
        let plan = Plan {
            folder: self.dir.path().to_owned(),
            server: self.spec("server", server, false),
            workers: Some(Box::new(move |_| workers.clone())),
            grace: self.grace,
        };
        run(&plan, &mut Screen::Quiet, &mut self.signals.1).await
    }

    /// Sends the signal once a script has written `file`.
    fn send_once_there(&self, file: &str, code: u8) {
        let (send, path) = (self.signals.0.clone(), self.dir.path().join(file));
        tokio::spawn(async move {
            while !path.exists() {
                sleep(Duration::from_millis(5)).await;
            }
            send.send(code).await.unwrap();
        });
    }

    fn exists(&self, name: &str) -> bool {
        self.dir.path().join(name).exists()
    }
}

/// A shell that ends on a file that another script writes, and not on a clock.
fn until(file: &str) -> String {
    format!("while [ ! -e $1/{file} ]; do sleep 0.01; done")
}

fn ok(failed: &[&str]) -> Outcome {
    let failed_workers = failed.iter().map(ToString::to_string).collect();
    Outcome {
        server_ok: true,
        failed_workers,
        interrupted: false,
        cut_short: None,
    }
}

#[tokio::test]
async fn all_end_well() {
    let mut bed = Bed::new();
    let server = format!("{READY}; {}; {}", until("a"), until("b"));
    let outcome = bed
        .run(&server, &["touch $1/a", "touch $1/b; echo said; echo more >&2"])
        .await
        .unwrap();
    assert_eq!(outcome, ok(&[]));
    assert_eq!(
        fs::read_to_string(bed.dir.path().join("worker-1.log")).unwrap(),
        "said\nmore\n"
    );
}

#[tokio::test]
async fn the_run_goes_on_without_a_trainer_that_failed() {
    let mut bed = Bed::new();
    let server = format!("{READY}; {}", until("done"));
    let survivor = format!("{}; touch $1/done", until("failed"));
    let outcome = bed
        .run(&server, &["echo boom >&2; touch $1/failed; exit 3", &survivor])
        .await
        .unwrap();
    assert_eq!(outcome, ok(&["worker-0"]));
}

#[tokio::test]
async fn without_any_trainer_the_server_is_asked_to_drain() {
    let mut bed = Bed::new();
    let server = format!(
        "trap 'touch $1/drained; exit 0' TERM; {READY}; {}",
        until("never")
    );
    let outcome = bed.run(&server, &["exit 3", "exit 4"]).await.unwrap();
    assert!(bed.exists("drained") && outcome.server_ok);
    assert_eq!(outcome.failed_workers.len(), 2);
}

#[tokio::test]
async fn a_server_that_fails_takes_its_workers_with_it() {
    let mut bed = Bed::new();
    let server = format!("{READY}; {}; exit 1", until("up"));
    let worker = format!(
        "trap 'touch $1/told; exit 0' TERM; touch $1/up; {}",
        until("never")
    );
    let outcome = bed.run(&server, &[&worker]).await.unwrap();
    assert_eq!(outcome, Outcome::default());
    assert!(bed.exists("told"));
}

#[tokio::test]
async fn a_server_that_cannot_start_is_reported_with_its_words() {
    let mut bed = Bed::new();
    let error = bed
        .run("echo 'address in use' >&2; exit 64", &[])
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "server ended with exit code 64; the end of its log:\n  | address in use"
    );
    let error = bed.run("kill -9 $$", &[]).await.unwrap_err().to_string();
    assert_eq!(error, "server was killed by signal 9; its log is empty");
}

#[tokio::test]
async fn what_an_earlier_server_left_is_not_taken_for_an_address() {
    let mut bed = Bed::new();
    bed.grace.start = Duration::from_millis(50);
    let stale = r#"{"grpc":"127.0.0.1:1","pid":1}"#;
    let script = format!("echo '{stale}' > $1/endpoints.json; {}", until("never"));
    let error = bed.run(&script, &[]).await.unwrap_err().to_string();
    assert!(
        error.starts_with("the server was not ready within 50ms; see "),
        "{error}"
    );
}

#[tokio::test]
async fn the_first_signal_reaches_the_server_only() {
    let mut bed = Bed::new();
    let server = format!(
        "trap 'touch $1/stop' TERM; {READY}; {}; {}",
        until("stop"),
        until("worker_done")
    );
    let worker = format!(
        "trap 'touch $1/bad' TERM INT; touch $1/up; {}; touch $1/worker_done",
        until("stop")
    );
    bed.send_once_there("up", 130);
    let outcome = bed.run(&server, &[&worker]).await.unwrap();
    assert_eq!(
        outcome,
        Outcome {
            interrupted: true,
            ..ok(&[])
        }
    );
    assert!(!bed.exists("bad"));
}

#[tokio::test]
async fn whoever_ignores_everything_is_killed() {
    let mut bed = Bed::new();
    bed.grace = Grace {
        drain: Duration::ZERO,
        term: Duration::from_millis(200),
        ..bed.grace
    };
    let deaf = |name: &str| {
        format!(
            "trap 'touch $1/heard_{name}' TERM; {READY}; touch $1/up; {}",
            until("never")
        )
    };
    let worker = deaf("worker").replace(READY, "true");
    bed.send_once_there("up", 130);
    let outcome = bed
        .run(&deaf("server").replace("touch $1/up; ", ""), &[&worker])
        .await
        .unwrap();
    assert!(bed.exists("heard_server") && bed.exists("heard_worker"));
    assert!(!outcome.server_ok && outcome.interrupted);
    assert_eq!(outcome.cut_short, None);
}

#[tokio::test]
async fn the_second_signal_ends_everything_at_once() {
    let mut bed = Bed::new();
    bed.signals.0.send(143).await.unwrap();
    bed.signals.0.send(130).await.unwrap();
    let outcome = bed
        .run(&format!("trap '' TERM; {}", until("never")), &[])
        .await
        .unwrap();
    assert_eq!(outcome.cut_short, Some(130));
}

#[tokio::test]
async fn a_run_that_goes_on_is_not_disturbed() {
    let mut bed = Bed::new();
    let log = event_log::EventLog::open(bed.dir.path(), 0).unwrap();
    fs::write(bed.dir.path().join("server.log"), "precious").unwrap();
    let error = bed.run("true", &[]).await.unwrap_err().to_string();
    assert!(error.contains(" is in use by process "), "{error}");
    assert_eq!(
        fs::read_to_string(bed.dir.path().join("server.log")).unwrap(),
        "precious"
    );
    drop(log);
}

#[test]
fn a_program_can_be_started_by_another() {
    let mut spec = Bed::new().spec("worker-0", "true", true);
    spec.args = vec!["--id".into(), "0".into()];
    spec.run_by("ip", ["netns", "exec", "space"].map(str::to_owned).to_vec());
    assert_eq!(spec.program, PathBuf::from("ip"));
    assert_eq!(spec.args, ["netns", "exec", "space", "/bin/sh", "--id", "0"]);
}
