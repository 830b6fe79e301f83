//! The log's lines as the reference's scripts read them: every field, by name and by JSON type.
//!
//! Ours may have more fields. One of these that is missing, renamed or of another type breaks whoever reads both.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod samples;

use asgc_core::event::{Decision, Eval, Event, Join, Leave};
use asgc_core::ids::Version;
use samples::{control, run_end, run_start, update};
use serde_json::Value;

/// What a field holds in JSON.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    /// A whole number, 0 or more, written without a fraction.
    Whole,
    /// Written with a fraction, or as a whole number: JSON knows no difference.
    Number,
    /// A number, or `null` where ours has none to tell.
    NumberOrNull,
    /// An object of numbers, whose keys are whole numbers in quotes.
    ByWorker,
}

use Kind::{ByWorker, Number, NumberOrNull, Text, Whole};

impl Kind {
    fn fits(self, value: &Value) -> bool {
        match self {
            Text => value.is_string(),
            Whole => value.is_u64(),
            Number => value.is_number(),
            NumberOrNull => value.is_number() || value.is_null(),
            ByWorker => value.as_object().is_some_and(|map| {
                map.iter()
                    .all(|(id, delay)| id.parse::<u32>().is_ok() && delay.is_number())
            }),
        }
    }
}

const RUN_START: [(&str, Kind); 10] = [
    ("event", Text),
    ("config_name", Text),
    ("num_workers", Whole),
    ("dataset", Text),
    ("model", Text),
    ("batch_size", Whole),
    ("compute_delay", ByWorker),
    ("comm_delay_ms", Number),
    ("bandwidth_mbps", Number),
    ("started_at", Number),
];

const UPDATE: [(&str, Kind); 11] = [
    ("event", Text),
    ("worker_id", Whole),
    ("version", Whole),
    ("staleness", Whole),
    ("payload_bytes", Whole),
    ("fetch_s", Number),
    ("compute_s", Number),
    ("decision", Text),
    ("weight", Number),
    ("residual_norm", Number),
    ("elapsed_s", Number),
];

const EVAL: [(&str, Kind); 5] = [
    ("event", Text),
    ("version", Whole),
    ("test_accuracy", Number),
    ("test_loss", Number),
    ("elapsed_s", Number),
];

const CONTROL: [(&str, Kind); 14] = [
    ("event", Text),
    ("elapsed_s", Number),
    ("loss_trend", NumberOrNull),
    ("loss_variability", NumberOrNull),
    ("mean_staleness", Number),
    ("rejected_frac", Number),
    ("bytes_per_s", Number),
    ("updates_per_s", Number),
    ("residual_norm_var", Number),
    ("old_compression", NumberOrNull),
    ("new_compression", NumberOrNull),
    ("old_s_max", Whole),
    ("new_s_max", Whole),
    ("reason", Text),
];

const RUN_END: [(&str, Kind); 13] = [
    ("event", Text),
    ("applied_updates", Whole),
    ("rejected_updates", Whole),
    ("rejected_frac", Number),
    ("total_bytes", Whole),
    ("raw_bytes", Whole),
    ("compression_ratio", Number),
    ("updates_per_sec", Number),
    ("elapsed_s", Number),
    ("mean_staleness", Number),
    ("max_staleness", Whole),
    ("final_test_accuracy", NumberOrNull),
    ("final_test_loss", NumberOrNull),
];

/// The line of `event`, once it is one line and has all of `fields`.
fn line(event: &Event, name: &str, fields: &[(&str, Kind)]) -> Value {
    let text = serde_json::to_string(event).unwrap();
    assert!(!text.contains('\n'));
    assert!(text.starts_with(&format!(r#"{{"event":"{name}","#)), "{text}");
    let line: Value = serde_json::from_str(&text).unwrap();
    for (field, kind) in fields {
        let value = line.get(field);
        let value = value.unwrap_or_else(|| panic!("{name}.{field} is not there: {text}"));
        assert!(
            kind.fits(value),
            "{name}.{field} is {value}, which is no {kind:?}"
        );
    }
    line
}

#[test]
fn run_start_is_the_references() {
    let line = line(&Event::RunStart(run_start()), "run_start", &RUN_START);
    assert_eq!(line["compute_delay"], serde_json::json!({"1": 0.3, "12": 2.0}));
    assert_eq!(
        (&line["config_name"], &line["batch_size"]),
        (&"adaptive".into(), &128.into())
    );
}

#[test]
fn update_is_the_references() {
    for (decision, name, weight) in [
        (Decision::Accepted, "accepted", 0.75),
        (Decision::Downweighted, "downweighted", 0.75),
        (Decision::Rejected, "rejected", 0.0),
    ] {
        let line = line(&Event::Update(update(decision)), "update", &UPDATE);
        assert_eq!(
            (&line["decision"], &line["weight"]),
            (&name.into(), &weight.into())
        );
        assert_eq!((&line["worker_id"], &line["version"]), (&1.into(), &8.into()));
        assert_eq!(
            (&line["staleness"], &line["payload_bytes"]),
            (&5.into(), &110_672.into())
        );
        assert_eq!(
            (&line["fetch_s"], &line["compute_s"]),
            (&0.25.into(), &0.5.into())
        );
        assert_eq!(
            (&line["residual_norm"], &line["elapsed_s"]),
            (&1.5.into(), &2.5.into())
        );
    }
}

#[test]
fn eval_is_the_references() {
    let eval = Eval {
        version: Version(250),
        test_accuracy: 0.85,
        test_loss: 0.4,
        elapsed_s: 9.0,
        reported_s: 10.0,
        eval_s: 0.5,
    };
    let line = line(&Event::Eval(eval), "eval", &EVAL);
    // When the version was current, as in the reference, where the server stood still meanwhile.
    assert_eq!(line["elapsed_s"], 9.0);
    assert_eq!(
        (&line["test_accuracy"], &line["test_loss"]),
        (&0.85.into(), &0.4.into())
    );
}

#[test]
fn control_is_the_references() {
    let known = line(&Event::Control(control(Some(0.25))), "control", &CONTROL);
    for field in [
        "loss_trend",
        "loss_variability",
        "old_compression",
        "new_compression",
    ] {
        assert_eq!(known[field], 0.25, "{field}");
    }
    assert_eq!((&known["old_s_max"], &known["new_s_max"]), (&4.into(), &5.into()));
    // The key stays where there is nothing to tell: who asks by name must find it.
    let unknown = line(&Event::Control(control(None)), "control", &CONTROL);
    assert!(unknown["loss_trend"].is_null() && unknown["old_compression"].is_null());
}

#[test]
fn run_end_is_the_references() {
    let known = line(&Event::RunEnd(run_end(Some(0.5))), "run_end", &RUN_END);
    assert_eq!(
        (&known["final_test_accuracy"], &known["final_test_loss"]),
        (&0.5.into(), &0.5.into())
    );
    assert_eq!(
        (&known["raw_bytes"], &known["total_bytes"]),
        (&200.into(), &100.into())
    );
    let unknown = line(&Event::RunEnd(run_end(None)), "run_end", &RUN_END);
    assert!(unknown["final_test_accuracy"].is_null());
}

/// Lines of ours that the reference does not have are told apart by names that it does not use either.
#[test]
fn lines_that_only_ours_have_are_named_differently() {
    let (role, name) = ("trainer".to_owned(), String::new());
    let join = Event::Join(Join {
        worker_id: None,
        role: role.clone(),
        name,
        rejoined: false,
        elapsed_s: 0.0,
    });
    let leave = Event::Leave(Leave {
        worker_id: None,
        role,
        reason: String::new(),
        uplink_frame_bytes: 0,
        downlink_frame_bytes: 0,
        elapsed_s: 0.0,
    });
    line(&join, "join", &[("event", Text), ("elapsed_s", Number)]);
    line(&leave, "leave", &[("event", Text), ("elapsed_s", Number)]);
}
