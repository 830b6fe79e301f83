//! Simulated runs beside real ones of the same file.

use super::evidence::{Evidence, Run, accuracy, rate};
use super::finding::{points, table};
use std::collections::BTreeMap;

/// The real run, and the simulated one with its measured times.
const PAIR: [&str; 2] = ["compare_real", "compare_simulated"];

fn bytes_per_push(run: &Run) -> Option<f64> {
    let pushes = run.summary.pushes();
    (pushes > 0).then(|| run.summary.payload_bytes() as f64 / pushes as f64)
}

fn mean_staleness(run: &Run) -> Option<f64> {
    run.summary.mean_staleness()
}

/// Share of pushes by staleness, over all runs of a group.
fn shares(evidence: &Evidence, group: &str) -> BTreeMap<u64, f64> {
    let mut counts = BTreeMap::<u64, f64>::new();
    for run in evidence.runs(group) {
        for (tau, pushes) in &run.staleness {
            *counts.entry(*tau).or_default() += *pushes as f64;
        }
    }
    let all = counts.values().sum::<f64>().max(1.0);
    counts.values_mut().for_each(|count| *count /= all);
    counts
}

/// Total variation: the share of pushes whose staleness would have to change to make one distribution the other.
fn distance(a: &BTreeMap<u64, f64>, b: &BTreeMap<u64, f64>) -> f64 {
    let taus = a
        .keys()
        .chain(b.keys())
        .collect::<std::collections::BTreeSet<_>>();
    let of = |shares: &BTreeMap<u64, f64>, tau: &u64| shares.get(tau).copied().unwrap_or(0.0);
    taus.into_iter()
        .map(|tau| (of(a, tau) - of(b, tau)).abs())
        .sum::<f64>()
        / 2.0
}

/// The part of the document; empty without both kinds of runs.
pub(super) fn section(evidence: &Evidence) -> String {
    let [real, simulated] = PAIR.map(|group| shares(evidence, group));
    if real.is_empty() || simulated.is_empty() {
        return String::new();
    }
    let table = table(
        evidence,
        &PAIR,
        &[
            ("accuracy (%)", accuracy),
            ("bytes a push", bytes_per_push),
            ("mean staleness", mean_staleness),
            ("updates/s", rate),
        ],
    );
    let gap = evidence.paired(PAIR, accuracy, |a, b| a - b);
    format!(
        "\n## Simulated against real\n\nThe same file (`configs/findings/compare/compare_real.toml`: Top-K with error feedback, one worker 0.3 s \
         slower) by the daemons and simulated. What a step takes was read off the real runs by `asgc calibrate`; the rest is the \
         model's own.\n\n{table}\n\nAccuracies differ by {} points, seed by seed. Of the pushes {:.0} % would need another staleness to \
         make one distribution the other (total variation distance).\n",
        points(gap),
        100.0 * distance(&real, &simulated)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_lie_between_nothing_and_everything() {
        let a = BTreeMap::from([(1, 0.5), (2, 0.5)]);
        let b = BTreeMap::from([(2, 0.25), (3, 0.75)]);
        assert_eq!(distance(&a, &a), 0.0);
        assert_eq!(distance(&a, &b), 0.75);
        assert_eq!(distance(&a, &BTreeMap::from([(9, 1.0)])), 1.0);
    }
}
