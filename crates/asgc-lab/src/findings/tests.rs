//! The document, from logs made up.

use super::*;
use crate::samples;
use asgc_core::event::Event;

/// A run of that name and seed that ended, its last accuracy and its payload scaled.
fn run(name: &str, seed: u64, accuracy: f64, bytes: f64) -> Run {
    let mut run = Run::default();
    for event in samples::run() {
        let event = match event {
            Event::RunStart(mut start) => {
                (start.config_name, start.seed) = (format!("{name}_s{seed}"), seed);
                Event::RunStart(start)
            }
            Event::Eval(mut eval) if eval.test_accuracy > 0.5 => {
                eval.test_accuracy = accuracy;
                Event::Eval(eval)
            }
            Event::RunEnd(mut end) => {
                end.total_bytes = (end.total_bytes as f64 * bytes) as u64;
                Event::RunEnd(end)
            }
            other => other,
        };
        run.add(&event);
    }
    run
}

fn evidence(feedback: f64) -> Evidence {
    let mut evidence = Evidence::default();
    for seed in [0, 1] {
        evidence.put(run("async_plain", seed, 0.87, 1.0));
        evidence.put(run("async_fixed_topk", seed, 0.865, 0.5));
        evidence.put(run("async_topk_ef", seed, feedback + 0.001 * seed as f64, 0.5));
    }
    evidence
}

/// The verdict of a finding, as the overview has it.
fn verdict(document: &Document, id: &str) -> String {
    let line = document
        .text
        .lines()
        .find(|line| line.starts_with(&format!("| [{id}]")))
        .unwrap();
    line.rsplit('|').nth(1).unwrap().trim().to_owned()
}

#[test]
fn verdicts_follow_from_what_was_measured() {
    let good = document(&evidence(0.88));
    assert_eq!(
        (verdict(&good, "F2"), verdict(&good, "F4")),
        ("holds".into(), "holds".into())
    );
    let bad = document(&evidence(0.80));
    assert_eq!(
        (verdict(&bad, "F2"), verdict(&bad, "F4")),
        ("does not hold here".into(), "does not hold here".into())
    );
}

#[test]
fn differences_are_taken_seed_by_seed_and_have_a_spread() {
    let text = document(&evidence(0.88)).text;
    // 88.0 - 86.5 and 88.1 - 86.5.
    assert!(
        text.contains("Error feedback is worth 1.55 ± 0.07 points."),
        "{text}"
    );
    assert!(text.contains("| async_topk_ef | 0, 1 | 88.05 ± 0.07 |"), "{text}");
}

#[test]
fn what_was_not_run_is_said_to_be_unmeasured() {
    let text = document(&Evidence::default());
    for id in [
        "F1", "F2", "F3", "F5", "F6", "F7", "F8", "F9", "F10", "F11", "F12",
    ] {
        assert_eq!(verdict(&text, id), "not measured", "{id}");
    }
    assert!(text.plot.is_none() && !text.text.contains("Simulated against real"));
}

#[test]
fn a_run_under_way_is_no_evidence() {
    let mut evidence = Evidence::default();
    let mut unfinished = Run::default();
    samples::run()
        .iter()
        .take(4)
        .for_each(|event| unfinished.add(event));
    evidence.put(unfinished);
    assert_eq!(verdict(&document(&evidence), "F2"), "not measured");
}
