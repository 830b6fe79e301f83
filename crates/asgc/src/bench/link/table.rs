//! Runs side by side, one row a configuration; of several rounds the medians.

use super::row::Row;
use anyhow::Result;
use asgc_lab::{rate, units};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const COLUMNS: [&str; 13] = [
    "updates/s",
    "predicted",
    "time to target",
    "against the first",
    "final accuracy",
    "best",
    "payload",
    "bytes a push",
    "compute",
    "communicating",
    "staleness",
    "rejected",
    "accepted by worker, codec at the end",
];

/// Runs whose computing differs by more than this factor did not have the same machine.
const SAME_MACHINE: f64 = 1.15;

/// One object a run.
pub(super) fn json(rows: &[Row]) -> Result<Vec<String>> {
    Ok(rows.iter().map(serde_json::to_string).collect::<Result<_, _>>()?)
}

/// All runs as a Markdown table.
pub(super) fn table(rows: &[Row]) -> String {
    let groups = groups(rows);
    let first = groups.first().and_then(|group| time_to_target(group));
    let mut text = format!(
        "| run | {} |\n|---|{}",
        COLUMNS.join(" | "),
        "---|".repeat(COLUMNS.len())
    );
    for group in &groups {
        let _ = write!(
            text,
            "\n| {} | {} |",
            name(group),
            cells(group, first).join(" | ")
        );
    }
    if let Some(target) = rows.iter().find_map(|row| row.target) {
        let _ = write!(text, "\n\ntarget: {}", units::accuracy(target));
    }
    text
}

/// A remark where the runs did not have the machine to the same degree, so that their times do not compare.
pub(super) fn unequal(rows: &[Row]) -> Option<String> {
    let times = || rows.iter().filter_map(|row| row.compute_s);
    let (least, most) = (times().reduce(f64::min)?, times().reduce(f64::max)?);
    (most > least * SAME_MACHINE).then(|| {
        format!(
            "computing a gradient took from {:.0} to {:.0} ms: strategies that make more updates get less of the cores, \
             and so do runs beside other work. Times compare only between rows with like compute times; repeat on an \
             idle machine with more cores, or with --repeat",
            least * 1e3,
            most * 1e3
        )
    })
}

/// Rounds of one configuration together, in the order of the first round.
fn groups(rows: &[Row]) -> Vec<Vec<&Row>> {
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|group| group[0].name == row.name) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

fn name(group: &[&Row]) -> String {
    let name = &group[0].name;
    match group.len() {
        1 => name.clone(),
        rounds => format!("{name} (median of {rounds})"),
    }
}

fn cells(group: &[&Row], first: Option<f64>) -> [String; COLUMNS.len()] {
    let median = |of: fn(&Row) -> Option<f64>| {
        let values: Vec<_> = group.iter().filter_map(|row| of(row)).collect();
        rate::median(&values)
    };
    let per_s = |rate: f64| format!("{rate:.1}");
    let time = time_to_target(group);
    [
        units::or_missing(median(|row| row.updates_per_s), per_s),
        units::or_missing(median(|row| row.predicted_updates_per_s), per_s),
        time.map_or_else(|| "not reached".to_owned(), units::seconds),
        units::or_missing(time.zip(first), |(time, first)| format!("{:.2}", time / first)),
        units::or_missing(median(|row| row.final_accuracy), units::accuracy),
        units::or_missing(median(|row| row.best_accuracy), units::accuracy),
        units::or_missing(median(|row| Some(row.payload_bytes as f64)), |bytes| {
            units::bytes(bytes as u64)
        }),
        units::or_missing(median(|row| row.bytes_a_push), |bytes| format!("{bytes:.0}")),
        units::or_missing(median(|row| row.compute_s), |s| format!("{:.1} ms", s * 1e3)),
        units::or_missing(median(|row| row.communicating_frac), units::percent),
        units::or_missing(median(|row| row.mean_staleness), |tau| format!("{tau:.2}")),
        units::or_missing(median(|row| row.rejected_frac), units::percent),
        workers(group),
    ]
}

/// The median, a round that did not reach the target counting as longer than any.
fn time_to_target(group: &[&Row]) -> Option<f64> {
    let times: Vec<_> = group
        .iter()
        .map(|row| row.time_to_target_s.unwrap_or(f64::INFINITY))
        .collect();
    rate::median(&times).filter(|time| time.is_finite())
}

/// `0: 512 of 520 (49.5 %), identity`: the medians, the share of all that was accepted, the last round's codec.
fn workers(group: &[&Row]) -> String {
    let mut workers = BTreeMap::<u32, (Vec<f64>, Vec<f64>, &str)>::new();
    for worker in group.iter().flat_map(|row| &row.workers) {
        let (accepted, pushes, codec) = workers.entry(worker.worker_id).or_default();
        accepted.push(worker.accepted as f64);
        pushes.push(worker.pushes as f64);
        *codec = worker.codec.as_str();
    }
    let middle = |values: &[f64]| rate::median(values).unwrap_or(0.0);
    let all: f64 = workers.values().map(|(accepted, ..)| middle(accepted)).sum();
    let cell = |(id, (accepted, pushes, codec)): (&u32, &(Vec<f64>, Vec<f64>, &str))| {
        let accepted = middle(accepted);
        let share = units::percent(accepted / all.max(1.0));
        format!("{id}: {accepted:.0} of {:.0} ({share}), {codec}", middle(pushes))
    };
    workers.iter().map(cell).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::super::row::Worker;
    use super::*;

    fn row(name: &str, time_to_target_s: Option<f64>) -> Row {
        let worker = |worker_id, accepted, codec: &str| Worker {
            worker_id,
            accepted,
            pushes: accepted + 1,
            codec: codec.into(),
        };
        Row {
            name: name.into(),
            target: Some(0.8),
            time_to_target_s,
            updates_per_s: Some(6.25),
            final_accuracy: Some(0.812),
            best_accuracy: Some(0.82),
            payload_bytes: 132_000_000,
            bytes_a_push: Some(221_352.0),
            compute_s: Some(0.0825),
            communicating_frac: Some(0.9),
            mean_staleness: Some(1.0),
            rejected_frac: Some(0.01),
            workers: vec![worker(0, 300, "identity"), worker(1, 100, "topk(rho=0.05)")],
            ..Row::default()
        }
    }

    #[test]
    fn a_row_a_run_with_times_against_the_first() {
        let text = table(&[
            row("plain", Some(60.0)),
            row("slow", None),
            row("quick", Some(15.0)),
        ]);
        let expect = "\
| run | updates/s | predicted | time to target | against the first | final accuracy | best | payload | bytes a push | \
compute | communicating | staleness | rejected | accepted by worker, codec at the end |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
| plain | 6.2 | - | 60.0 s | 1.00 | 81.20 % | 82.00 % | 132 MB | 221352 | 82.5 ms | 90.0 % | 1.00 | 1.0 % | 0: 300 of 301 (75.0 %), identity; 1: 100 of 101 (25.0 %), topk(rho=0.05) |
| slow | 6.2 | - | not reached | - | 81.20 % | 82.00 % | 132 MB | 221352 | 82.5 ms | 90.0 % | 1.00 | 1.0 % | 0: 300 of 301 (75.0 %), identity; 1: 100 of 101 (25.0 %), topk(rho=0.05) |
| quick | 6.2 | - | 15.0 s | 0.25 | 81.20 % | 82.00 % | 132 MB | 221352 | 82.5 ms | 90.0 % | 1.00 | 1.0 % | 0: 300 of 301 (75.0 %), identity; 1: 100 of 101 (25.0 %), topk(rho=0.05) |

target: 80.00 %";
        assert_eq!(text, expect, "\n{text}");
    }

    #[test]
    fn rounds_are_shown_by_their_medians() {
        let rounds = |times: [Option<f64>; 3]| {
            let text = table(&times.map(|time| row("x", time)));
            text.lines().nth(2).unwrap().to_owned()
        };
        let one_failed = rounds([Some(20.0), None, Some(30.0)]);
        assert!(
            one_failed.starts_with("| x (median of 3) | 6.2 | - | 30.0 s |"),
            "{one_failed}"
        );
        let most_failed = rounds([Some(20.0), None, None]);
        assert!(most_failed.contains("| not reached | - |"), "{most_failed}");
    }

    #[test]
    fn runs_beside_other_work_are_told() {
        let of = |compute_s| Row {
            compute_s,
            ..row("x", None)
        };
        assert_eq!(unequal(&[of(Some(0.082)), of(Some(0.09)), of(None)]), None);
        assert_eq!(unequal(&[]), None);
        let words = unequal(&[of(Some(0.082)), of(Some(0.124))]).unwrap();
        assert!(
            words.starts_with("computing a gradient took from 82 to 124 ms: "),
            "{words}"
        );
    }

    #[test]
    fn json_has_an_object_a_run() {
        let lines = json(&[row("a", Some(1.0)), row("a", None)]).unwrap();
        assert_eq!(lines.len(), 2);
        let read: serde_json::Value = serde_json::from_str(&lines[1]).unwrap();
        assert_eq!(read["name"], "a");
        assert!(read["time_to_target_s"].is_null());
    }
}
