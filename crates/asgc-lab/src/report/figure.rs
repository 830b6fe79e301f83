//! What is drawn, as numbers: no colours, no pixels.

use super::run::{Measured, Run, Stale};
use std::collections::BTreeMap;

/// Points in the units of the figure's axes.
pub(super) type Points = Vec<(f64, f64)>;

/// How a series is joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Straight from point to point.
    Line,
    /// Level until the next point.
    Steps,
}

/// One line of a figure.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    /// In the legend; empty for further seeds of one that is there.
    pub(super) label: String,
    /// Which colour: the same number is the same group in all figures.
    pub(super) colour: usize,
    pub(super) style: Style,
    pub(super) points: Points,
}

/// A chart.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figure {
    /// The file's name, and the anchor in the page.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// Axes with their units.
    pub(super) axes: [&'static str; 2],
    /// How to read it.
    pub(super) note: &'static str,
    pub(super) series: Vec<Series>,
    /// A level to compare with, such as the target accuracy.
    pub(super) level: Option<f64>,
}

const MEGA: f64 = 1e6;

/// Bins of a distribution, at most.
const BINS: u64 = 40;

/// Runs in groups, each with its number.
pub(super) fn colours(runs: &[Run]) -> BTreeMap<String, usize> {
    let mut colours = BTreeMap::new();
    for run in runs {
        let next = colours.len();
        colours.entry(run.group().to_owned()).or_insert(next);
    }
    colours
}

/// All charts of `runs`; those about which the logs say nothing have no points.
pub(super) fn figures(runs: &[Run], target: Option<f64>) -> Vec<Figure> {
    let mut figures = learning(runs, target);
    figures.extend([staleness(runs), rejection(runs), throughput(runs)]);
    if runs.iter().any(|run| !run.controls.is_empty()) {
        figures.extend([compression(runs), bound(runs)]);
    }
    figures
}

/// A series a run. Of one group only the first has a label.
fn series(runs: &[Run], style: Style, points: impl Fn(&Run) -> Points) -> Vec<Series> {
    let colours = colours(runs);
    let mut seen = std::collections::BTreeSet::new();
    runs.iter()
        .map(|run| {
            let first = seen.insert(run.group().to_owned());
            let finite = points(run)
                .into_iter()
                .filter(|(x, y)| x.is_finite() && y.is_finite());
            Series {
                label: if first {
                    run.group().to_owned()
                } else {
                    String::new()
                },
                colour: colours.get(run.group()).copied().unwrap_or(0),
                style,
                points: finite.collect(),
            }
        })
        .collect()
}

/// Evaluations, but for that of the untrained model, which would squeeze all others together.
fn trained(run: &Run) -> &[Measured] {
    match run.measured.as_slice() {
        [first, rest @ ..] if rest.len() >= 2 && first.bytes == 0.0 => rest,
        all => all,
    }
}

fn learning(runs: &[Run], target: Option<f64>) -> Vec<Figure> {
    let level = target.map(|target| 100.0 * target);
    let measured = |of: fn(&Measured) -> (f64, f64)| {
        series(runs, Style::Line, move |run| {
            trained(run).iter().map(of).collect()
        })
    };
    vec![
        Figure {
            id: "accuracy_vs_time",
            title: "Accuracy against time",
            axes: ["time since the start (s)", "test accuracy (%)"],
            note: "Further left is sooner, higher is better. A point is an evaluation, at the time its version was current; that of the untrained model is left out.",
            series: measured(|m| (m.elapsed_s, 100.0 * m.accuracy)),
            level,
        },
        Figure {
            id: "loss_vs_time",
            title: "Test loss against time",
            axes: ["time since the start (s)", "mean cross-entropy"],
            note: "Lower is better. A rise between two points is a rebound.",
            series: measured(|m| (m.elapsed_s, m.loss)),
            level: None,
        },
        Figure {
            id: "accuracy_vs_bytes",
            title: "Accuracy against bytes",
            axes: ["payload of all pushes so far (MB)", "test accuracy (%)"],
            note: "Further left is cheaper. Rejected pushes count too: they were sent.",
            series: measured(|m| (m.bytes / MEGA, 100.0 * m.accuracy)),
            level,
        },
        Figure {
            id: "loss_vs_bytes",
            title: "Test loss against bytes",
            axes: ["payload of all pushes so far (MB)", "mean cross-entropy"],
            note: "Further left is cheaper, lower is better.",
            series: measured(|m| (m.bytes / MEGA, m.loss)),
            level: None,
        },
        Figure {
            id: "bytes_vs_accuracy",
            title: "Bytes against accuracy",
            axes: ["test accuracy (%)", "payload of all pushes so far (MB)"],
            note: "What an accuracy had cost when it was measured: lower is cheaper.",
            series: measured(|m| (100.0 * m.accuracy, m.bytes / MEGA)),
            level: None,
        },
    ]
}

/// Staleness in bins of equal width: the bin's lowest value, its pushes and rejections.
fn bins(runs: &[Run], run: &Run) -> Vec<(f64, Stale)> {
    let largest = runs.iter().filter_map(|run| run.staleness.keys().last()).max();
    let width = largest.map_or(1, |largest| largest / BINS + 1);
    let mut bins = BTreeMap::<u64, Stale>::new();
    for (tau, stale) in &run.staleness {
        let bin = bins.entry(tau / width).or_default();
        bin.pushes += stale.pushes;
        bin.rejected += stale.rejected;
    }
    bins.into_iter()
        .map(|(bin, stale)| ((bin * width) as f64, stale))
        .collect()
}

fn staleness(runs: &[Run]) -> Figure {
    let shares = |run: &Run| {
        let all = run.summary.pushes().max(1) as f64;
        let bins = bins(runs, run).into_iter().collect::<Vec<_>>();
        bins.iter()
            .map(|(tau, stale)| (*tau, 100.0 * stale.pushes as f64 / all))
            .collect()
    };
    Figure {
        id: "staleness_distribution",
        title: "Staleness",
        axes: ["staleness of a push (versions)", "share of pushes (%)"],
        note: "How many updates others made while a push was computed and sent. A hump far right is a straggler.",
        series: series(runs, Style::Line, shares),
        level: None,
    }
}

fn rejection(runs: &[Run]) -> Figure {
    let shares = |run: &Run| {
        let share = |stale: &Stale| 100.0 * stale.rejected as f64 / stale.pushes.max(1) as f64;
        bins(runs, run)
            .iter()
            .map(|(tau, stale)| (*tau, share(stale)))
            .collect()
    };
    Figure {
        id: "staleness_vs_rejection",
        title: "Staleness against rejection",
        axes: ["staleness of a push (versions)", "rejected (% of its pushes)"],
        note: "A fixed bound is a cliff; a slope is a bound that moved while the run went on.",
        series: series(runs, Style::Line, shares),
        level: None,
    }
}

/// A series a strategy, through all its runs.
fn throughput(runs: &[Run]) -> Figure {
    let mut strategies = BTreeMap::<String, Points>::new();
    for run in runs {
        if let Some((delay_s, rate)) = run.mean_delay_s().zip(run.summary.updates_per_s()) {
            strategies
                .entry(run.strategy())
                .or_default()
                .push((1e3 * delay_s, rate));
        }
    }
    let series = strategies
        .into_iter()
        .enumerate()
        .map(|(colour, (label, mut points))| {
            points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            Series {
                label,
                colour,
                style: Style::Line,
                points,
            }
        });
    Figure {
        id: "throughput_vs_delay",
        title: "Throughput against induced delay",
        axes: [
            "injected delay, mean over workers (ms a step)",
            "applied updates a second",
        ],
        note: "Runs of one strategy are joined. In sync mode an update is a round, made of a push of every worker.",
        series: series.collect(),
        level: None,
    }
}

/// A decision is a point: what was in force from then on.
fn compression(runs: &[Run]) -> Figure {
    let points = |run: &Run| {
        let first = run
            .controls
            .first()
            .and_then(|first| Some((0.0, first.old_compression?)));
        let rest = run
            .controls
            .iter()
            .filter_map(|c| Some((c.elapsed_s, c.new_compression?)));
        first.into_iter().chain(rest).collect()
    };
    Figure {
        id: "compression_over_time",
        title: "Compression over time",
        axes: ["time since the start (s)", "rho, or bits under quantize"],
        note: "Each dot is a decision of the controller; the reasons are in the table below.",
        series: series(runs, Style::Steps, points),
        level: None,
    }
}

fn bound(runs: &[Run]) -> Figure {
    let points = |run: &Run| {
        let first = run.controls.first().map(|first| (0.0, first.old_s_max as f64));
        let rest = run.controls.iter().map(|c| (c.elapsed_s, c.new_s_max as f64));
        first.into_iter().chain(rest).collect()
    };
    Figure {
        id: "staleness_bound_over_time",
        title: "Staleness bound over time",
        axes: ["time since the start (s)", "s_max (versions)"],
        note: "Each dot is a decision of the controller.",
        series: series(runs, Style::Steps, points),
        level: None,
    }
}
