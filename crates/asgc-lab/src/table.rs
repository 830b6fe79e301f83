//! Figures of one or several runs, side by side, as a Markdown table.

use crate::summary::{ControlSummary, Summary, WorkerSummary};
use crate::units::{self, or_missing};
use comfy_table::{CellAlignment, Table, presets};

type Row = (&'static str, fn(&Summary, Option<f64>) -> String);

const ROWS: [Row; 17] = [
    ("ended", |s, _| s.ending().to_owned()),
    ("data set, model", |s, _| {
        or_missing(s.start.as_ref(), |r| format!("{}, {}", r.dataset, r.model))
    }),
    ("mode, compression", |s, _| {
        or_missing(s.start.as_ref(), |r| {
            let feedback = if r.error_feedback { " + error feedback" } else { "" };
            format!("{}, {}{feedback}", r.mode, r.compression)
        })
    }),
    ("final accuracy", |s, _| or_missing(s.accuracy(), units::accuracy)),
    ("final loss", |s, _| {
        or_missing(s.loss(), |loss| format!("{loss:.4}"))
    }),
    ("largest accuracy drop", |s, _| {
        or_missing(s.max_accuracy_drop(), units::accuracy)
    }),
    ("time to target", time_to_target),
    ("wall time", |s, _| units::seconds(s.wall_s())),
    ("updates applied", |s, _| s.applied().to_string()),
    ("updates/s", |s, _| {
        or_missing(s.updates_per_s(), |rate| format!("{rate:.1}"))
    }),
    ("payload sent", |s, _| units::bytes(s.payload_bytes())),
    ("payload received", |s, _| units::bytes(s.received_bytes())),
    ("on the wire, up / down", |s, _| {
        or_missing(s.frame_bytes(), |(up, down)| {
            format!("{} / {}", units::bytes(up), units::bytes(down))
        })
    }),
    ("compression ratio", |s, _| {
        or_missing(s.compression_ratio(), |ratio| format!("{ratio:.2}"))
    }),
    ("staleness, mean / max", |s, _| {
        or_missing(s.mean_staleness().zip(s.max_staleness()), |(mean, max)| {
            format!("{mean:.2} / {max}")
        })
    }),
    ("rejected", |s, _| or_missing(s.rejected_share(), units::percent)),
    ("down-weighted", |s, _| {
        or_missing(s.downweighted_share(), units::percent)
    }),
];

/// Shown only where one of the runs has something to say.
const OPTIONAL_ROWS: [Row; 1] = [("controls", |s, _| or_missing(s.control.as_ref(), controls))];

/// From where to where the controller went: `rho 0.25 -> 0.05, s_max 4 -> 10, 13 decisions`.
fn controls(control: &ControlSummary) -> String {
    let (first, last) = (&control.first, &control.last);
    let strength = units::strength_name(&last.compression_mode);
    let strength = strength.zip(first.old_compression.zip(last.new_compression));
    let strength = strength.map_or(String::new(), |(name, (old, new))| {
        format!("{name} {old} -> {new}, ")
    });
    let (old, new, decisions) = (first.old_s_max, last.new_s_max, control.decisions);
    let plural = if decisions == 1 { "" } else { "s" };
    format!("{strength}s_max {old} -> {new}, {decisions} decision{plural}")
}

fn time_to_target(summary: &Summary, target: Option<f64>) -> String {
    let Some(target) = target.or_else(|| summary.target()) else {
        return units::MISSING.into();
    };
    let reached = summary
        .time_to(target)
        .map_or_else(|| "not reached".into(), units::seconds);
    format!("{reached} ({})", units::accuracy(target))
}

/// One column a run. `target` is an accuracy (fraction) to ask about instead of each run's own.
#[must_use]
pub fn runs(summaries: &[Summary], target: Option<f64>) -> String {
    let mut table = markdown();
    table.set_header(std::iter::once("run").chain(summaries.iter().map(Summary::name)));
    let cells = |show: fn(&Summary, Option<f64>) -> String| summaries.iter().map(move |s| show(s, target));
    for (label, show) in ROWS {
        table.add_row(std::iter::once(label.to_owned()).chain(cells(show)));
    }
    for (label, show) in OPTIONAL_ROWS {
        if cells(show).any(|cell| cell != units::MISSING) {
            table.add_row(std::iter::once(label.to_owned()).chain(cells(show)));
        }
    }
    table.to_string()
}

/// Trainers that have a row; a thousand rows tell nobody anything.
const TRAINERS: usize = 32;

/// One row a trainer, of the first so many.
#[must_use]
pub fn workers(summary: &Summary) -> String {
    let mut table = markdown();
    table.set_header([
        "worker",
        "pushes",
        "applied",
        "down-weighted",
        "mean staleness",
        "compute",
        "fetch",
        "payload",
    ]);
    for (id, worker) in summary.workers.iter().take(TRAINERS) {
        table.add_row(worker_row(&id.to_string(), worker));
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    match summary.workers.len().saturating_sub(TRAINERS) {
        0 => table.to_string(),
        more => format!("{table}\nand {more} more trainers"),
    }
}

fn worker_row(id: &str, worker: &WorkerSummary) -> [String; 8] {
    [
        id.to_owned(),
        worker.pushes.to_string(),
        worker.applied.to_string(),
        worker.downweighted.to_string(),
        or_missing(worker.mean_staleness(), |tau| format!("{tau:.2}")),
        or_missing(worker.mean_compute_s(), |s| format!("{:.1} ms", s * 1e3)),
        or_missing(worker.mean_fetch_s(), |s| format!("{:.1} ms", s * 1e3)),
        units::bytes(worker.payload_bytes),
    ]
}

/// An empty table that is Markdown.
pub(crate) fn markdown() -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use asgc_core::event::{Control, Event};

    #[test]
    fn ended_and_killed_runs_side_by_side() {
        let ended = samples::run();
        let killed = &ended[..ended.len() - 1];
        let table = runs(
            &[Summary::from_events(&ended), Summary::from_events(killed)],
            None,
        );
        let expect = "\
| run                    | demo                                   | demo                                   |
|------------------------|----------------------------------------|----------------------------------------|
| ended                  | max_updates                            | no run_end: killed, or still running   |
| data set, model        | fashion_mnist, small_cnn               | fashion_mnist, small_cnn               |
| mode, compression      | async, topk(rho=0.25) + error feedback | async, topk(rho=0.25) + error feedback |
| final accuracy         | 86.00 %                                | 86.00 %                                |
| final loss             | 0.4000                                 | 0.4000                                 |
| largest accuracy drop  | 0.00 %                                 | 0.00 %                                 |
| time to target         | 2.00 s (85.00 %)                       | 2.00 s (85.00 %)                       |
| wall time              | 4.00 s                                 | 3.50 s                                 |
| updates applied        | 3                                      | 3                                      |
| updates/s              | 0.8                                    | 0.9                                    |
| payload sent           | 400 B                                  | 400 B                                  |
| payload received       | 310 B                                  | 310 B                                  |
| on the wire, up / down | 500 B / 600 B                          | -                                      |
| compression ratio      | 2.00                                   | 2.00                                   |
| staleness, mean / max  | 2.50 / 7                               | 2.50 / 7                               |
| rejected               | 25.0 %                                 | 25.0 %                                 |
| down-weighted          | 25.0 %                                 | 25.0 %                                 |";
        assert_eq!(table, expect, "\n{table}");
    }

    #[test]
    fn controls_have_a_row_where_there_are_any() {
        let row = |logs: &[&[Event]]| {
            let summaries = logs.iter().map(|log| Summary::from_events(*log));
            let table = runs(&summaries.collect::<Vec<_>>(), None);
            table
                .lines()
                .find(|line| line.starts_with("| controls"))
                .map(|line| {
                    line.split('|')
                        .map(|cell| cell.trim().to_owned())
                        .collect::<Vec<_>>()[2..]
                        .join(";")
                })
        };
        let (first, last) = (
            samples::control((0.25, 0.2), (4, 5)),
            samples::control((0.1, 0.05), (9, 10)),
        );
        let identity = Control {
            compression_mode: "identity".into(),
            old_compression: None,
            new_compression: None,
            ..first.clone()
        };
        let quantize = Control {
            compression_mode: "quantize".into(),
            old_compression: Some(8.0),
            new_compression: Some(7.0),
            ..first.clone()
        };
        let adaptive = [first, last].map(Event::Control);
        assert_eq!(row(&[&samples::run()]), None);
        assert_eq!(
            row(&[&adaptive, &samples::run()]).as_deref(),
            Some("rho 0.25 -> 0.05, s_max 4 -> 10, 2 decisions;-;")
        );
        let others = [&[Event::Control(identity)][..], &[Event::Control(quantize)]];
        assert_eq!(
            row(&others).as_deref(),
            Some("s_max 4 -> 5, 1 decision;bits 8 -> 7, s_max 4 -> 5, 1 decision;")
        );
    }

    #[test]
    fn a_target_of_ones_own() {
        let table = runs(&[Summary::from_events(&samples::run())], Some(0.9));
        assert!(table.contains("not reached (90.00 %)"), "\n{table}");
    }

    #[test]
    fn trainers_are_told_apart() {
        let table = workers(&Summary::from_events(&samples::run()));
        let expect = "\
| worker | pushes | applied | down-weighted | mean staleness |  compute |    fetch | payload |
|--------|--------|---------|---------------|----------------|----------|----------|---------|
|      0 |      2 |       2 |             0 |           0.00 | 200.0 ms | 100.0 ms |   200 B |
|      1 |      2 |       1 |             1 |           5.00 | 200.0 ms | 100.0 ms |   200 B |";
        assert_eq!(table, expect, "\n{table}");
    }

    #[test]
    fn of_many_trainers_the_first_have_a_row() {
        let updates = (0..100).map(|id| Event::Update(samples::update(id, 1, 0, 1.0)));
        let table = workers(&Summary::from_events(&updates.collect::<Vec<_>>()));
        assert_eq!(table.lines().count(), 2 + TRAINERS + 1);
        assert!(table.ends_with("and 68 more trainers"), "\n{table}");
    }

    #[test]
    fn an_empty_log_is_shown_as_one() {
        let table = runs(&[Summary::default()], None);
        assert!(table.contains("| ?"), "\n{table}");
    }
}
