//! What a matrix shows while it runs: a bar for all of it and one for each run on a terminal, lines elsewhere.

use crate::output::{self, Screen};
use asgc_lab::{Summary, units};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::time::Duration;

/// A run that has not ended: its configuration, and seconds that it has run already, 0 for one to come.
pub(super) type Left = (String, f64);

/// How far a matrix is, and how long its runs took.
pub(super) struct Board {
    bars: Option<(MultiProgress, ProgressBar)>,
    total: usize,
    done: usize,
    at_once: usize,
    /// Seconds by configuration.
    took: BTreeMap<String, Vec<f64>>,
}

impl Board {
    pub(super) fn new(total: usize, at_once: usize) -> Self {
        let bars = std::io::stderr().is_terminal().then(|| {
            let all = MultiProgress::new();
            let bar = all.add(ProgressBar::new(total as u64));
            // The template is a constant; were it wrong, the plain bar would still do.
            if let Ok(style) =
                ProgressStyle::with_template("{elapsed_precise} {bar:30} {pos}/{len} runs {wide_msg}")
            {
                bar.set_style(style);
            }
            (all, bar)
        });
        Self {
            bars,
            total,
            done: 0,
            at_once,
            took: BTreeMap::new(),
        }
    }

    pub(super) fn remark(&self, text: &str) {
        match &self.bars {
            Some((all, _)) => all.suspend(|| output::note(text)),
            None => output::note(text),
        }
    }

    pub(super) fn skipped(&mut self, name: &str) {
        self.done += 1;
        self.advance(None);
        self.remark(&format!("{name}: there already"));
    }

    /// A run begins; where its own progress goes.
    pub(super) fn begins(&self, name: &str) -> Screen {
        match &self.bars {
            Some((all, _)) => {
                let bar = all.add(ProgressBar::new(0));
                if let Ok(style) =
                    ProgressStyle::with_template("  {prefix:24} {bar:20} {pos}/{len} {wide_msg}")
                {
                    bar.set_style(style);
                }
                bar.set_prefix(name.to_owned());
                Screen::Bar(bar)
            }
            None => {
                output::note(&format!(
                    "{name}: begins ({} of {} runs done)",
                    self.done, self.total
                ));
                Screen::Quiet
            }
        }
    }

    /// A run has ended well; `left` are those under way and to come.
    pub(super) fn ended(
        &mut self,
        (name, group): (&str, &str),
        took: Duration,
        summary: Option<&Summary>,
        left: &[Left],
    ) {
        self.done += 1;
        self.took
            .entry(group.to_owned())
            .or_default()
            .push(took.as_secs_f64());
        let rest = self.time_left_s(left);
        self.advance(rest);
        let figures = summary.map_or(String::new(), |summary| {
            let accuracy = units::or_missing(summary.accuracy(), units::accuracy);
            format!(", accuracy {accuracy}, {}", units::bytes(summary.payload_bytes()))
        });
        let rest = rest.map_or(String::new(), |rest| {
            format!(", about {} left", units::seconds(rest))
        });
        self.remark(&format!(
            "{name}: ended after {}{figures}{rest}",
            units::seconds(took.as_secs_f64())
        ));
    }

    pub(super) fn failed(&mut self, words: &str) {
        self.done += 1;
        self.advance(None);
        self.remark(words);
    }

    pub(super) fn finish(&self) {
        if let Some((_, bar)) = &self.bars {
            bar.abandon();
        }
    }

    /// A run takes as long as others of its configuration did, or as all did in the mean.
    ///
    /// Shared among as many as run at once, and no less than the longest of them needs by itself.
    fn time_left_s(&self, left: &[Left]) -> Option<f64> {
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
        let all = self.took.values().flatten().copied().collect::<Vec<_>>();
        if all.is_empty() || left.is_empty() {
            return None;
        }
        let of = |(group, spent): &Left| {
            let whole = self
                .took
                .get(group)
                .map_or_else(|| mean(&all), |times| mean(times));
            (whole - spent).max(0.0)
        };
        let shared = left.iter().map(of).sum::<f64>() / self.at_once.min(left.len()) as f64;
        Some(left.iter().map(of).fold(shared, f64::max))
    }

    fn advance(&self, rest: Option<f64>) {
        if let Some((_, bar)) = &self.bars {
            bar.set_position(self.done as u64);
            bar.set_message(rest.map_or(String::new(), |rest| {
                format!("about {} left", units::seconds(rest))
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_comes_from_runs_of_the_same_kind() {
        let mut board = Board::new(6, 2);
        let left = |groups: &[&str]| groups.iter().map(|g| ((*g).to_owned(), 0.0)).collect::<Vec<_>>();
        assert_eq!(board.time_left_s(&left(&["a"])), None);
        board.ended(("a_s0", "a"), Duration::from_secs(10), None, &[]);
        board.ended(("b_s0", "b"), Duration::from_secs(30), None, &[]);
        // a: 10, b: 30, c: their mean, two at once.
        assert_eq!(board.time_left_s(&left(&["a", "b", "c"])), Some(30.0));
        assert_eq!(
            board.time_left_s(&left(&["b"])),
            Some(30.0),
            "one alone gains nothing"
        );
        assert_eq!(board.time_left_s(&[]), None);
        // One under way has some of it behind it; one that takes longer than expected has nothing left.
        let spent = |group: &str, seconds: f64| (group.to_owned(), seconds);
        assert_eq!(
            board.time_left_s(&[spent("b", 20.0), spent("a", 0.0)]),
            Some(10.0)
        );
        assert_eq!(board.time_left_s(&[spent("b", 40.0)]), Some(0.0));
        assert_eq!(
            board.time_left_s(&[spent("b", 0.0), spent("a", 8.0)]),
            Some(30.0),
            "no sooner than the longest"
        );
    }
}
