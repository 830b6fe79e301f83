//! `asgc bench cluster` on real processes, bounded by a count of pushes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use asgc_tests::programs;
use serde_json::Value;
use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    // Its clients are this same program, and its server is found beside it.
    let mut command = Command::new(programs::find("asgc"));
    command.args(["bench", "cluster"]).args(args).output().unwrap()
}

#[test]
fn every_push_of_every_session_is_counted() {
    let args = [
        "--workers",
        "2",
        "--parameters",
        "100",
        "--updates",
        "5",
        "--seconds",
        "600",
        "--json",
    ];
    let codecs = ["--codec", "topk(rho=0.1)", "--codec", "quantize(bits=8)"];
    let output = bench(&[&args[..], &codecs].concat());
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&report["workers"], &report["parameters"]),
        (&2.into(), &100.into())
    );
    for bandwidth in ["read_gb_s", "copy_gb_s", "loopback_gb_s"] {
        assert!(report["machine"][bandwidth].as_f64().unwrap() > 0.0);
    }
    let rows = report["rows"].as_array().unwrap();
    let codecs = rows
        .iter()
        .map(|row| row["codec"].as_str().unwrap())
        .collect::<Vec<_>>();
    assert_eq!(codecs, ["topk(rho=0.1)", "quantize(bits=8)"]);
    for row in rows {
        let count = |name: &str| row[name].as_u64().unwrap();
        assert_eq!(
            (count("accepted"), count("rejected"), count("starved")),
            (10, 0, 0)
        );
        assert_eq!(row["fairness"], 1.0);
        assert!(row["latency_p99_s"].as_f64() >= row["latency_p50_s"].as_f64());
        assert!(row["uplink_bytes_per_s"].as_f64().unwrap() > 0.0);
        assert!(row["memory"]["server_bytes"].as_u64().unwrap() > 0);
    }
}

#[test]
fn the_server_takes_what_is_set_and_refuses_what_is_wrong() {
    let small = [
        "--workers",
        "1",
        "--parameters",
        "10",
        "--updates",
        "1",
        "--seconds",
        "600",
    ];
    let output = bench(&[&small[..], &["--set", "server.chunk_byte=8"]].concat());
    assert_eq!(output.status.code(), Some(64));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        words.contains("chunk_byte") && words.contains("chunk_bytes"),
        "{words}"
    );
}
