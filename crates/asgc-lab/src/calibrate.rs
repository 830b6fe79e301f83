//! What a simulation needs to know of machines, read off a real run's log.
//!
//! A worker's step, in the simulation's sense, is everything between two of its pushes but what is modelled by itself:
//! the injected delay, and waiting for others. So computing, reading a batch, encoding, and a real machine's contention
//! are all in it, and links count only as far as the simulation adds them.

use asgc_core::event::{Event, Update};
use std::collections::BTreeMap;

/// Pushes at a worker's start that are left out: caches, data and connections are not warm yet.
const WARM_UP: usize = 5;

/// Times that were found.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// Mean seconds of a step, by worker.
    pub step_s: BTreeMap<u32, f64>,
    /// Standard deviation over mean, over all steps of all workers.
    pub spread: f64,
    /// Mean seconds of an evaluation; `None` where there was none.
    pub eval_s: Option<f64>,
}

/// Reads times off a log; `None` where no worker pushed often enough.
pub fn calibrate<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<Calibration> {
    let mut delays = BTreeMap::new();
    let mut pushes = BTreeMap::<u32, Vec<&Update>>::new();
    let mut evals = Vec::new();
    for event in events {
        match event {
            Event::RunStart(start) => delays.clone_from(&start.compute_delay),
            Event::Update(update) => pushes.entry(update.worker_id.0).or_default().push(update),
            Event::Eval(eval) if eval.eval_s.is_finite() => evals.push(eval.eval_s),
            _ => {}
        }
    }
    let (mut step_s, mut relative) = (BTreeMap::new(), Vec::new());
    for (worker, pushes) in pushes {
        let delay = delays.get(&worker).copied().unwrap_or(0.0);
        let steps = steps(&pushes, delay);
        if let Some(mean) = mean(&steps) {
            step_s.insert(worker, mean);
            relative.extend(steps.iter().map(|step| step / mean - 1.0));
        }
    }
    let squares = relative
        .iter()
        .map(|deviation| deviation * deviation)
        .collect::<Vec<_>>();
    Some(Calibration {
        spread: mean(&squares)?.sqrt(),
        step_s,
        eval_s: mean(&evals),
    })
}

fn steps(pushes: &[&Update], delay_s: f64) -> Vec<f64> {
    let warm = pushes.get(WARM_UP..).unwrap_or(&[]);
    warm.windows(2)
        .map(|pair| pair[1].elapsed_s - pair[0].elapsed_s - delay_s - pair[1].pull_held_s)
        .filter(|step| *step > 0.0)
        .collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

impl Calibration {
    /// The settings, as `section.key` and value.
    #[must_use]
    pub fn settings(&self) -> Vec<(String, String)> {
        let all = self.step_s.values().copied().collect::<Vec<_>>();
        let key = |key: &str| format!("simulation.{key}");
        let mut settings = vec![
            (key("step"), "lognormal".to_owned()),
            (key("step_s"), format!("{:.6}", mean(&all).unwrap_or(0.0))),
            (key("step_spread"), format!("{:.4}", self.spread)),
        ];
        settings.extend(self.eval_s.map(|eval_s| (key("eval_s"), format!("{eval_s:.4}"))));
        let own = self
            .step_s
            .iter()
            .map(|(worker, step_s)| (key(&format!("step_by_worker.{worker}")), format!("{step_s:.6}")));
        settings.extend(own);
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    /// Pushes of two workers: one every 100 or 140 ms, the other every 500 ms, 300 of them injected.
    fn log() -> Vec<Event> {
        let mut events = samples::run();
        events.retain(|event| matches!(event, Event::RunStart(_)));
        if let Some(Event::RunStart(start)) = events.first_mut() {
            start.compute_delay = [(1, 0.3)].into();
        }
        let mut at = 0.0;
        for i in 0..41 {
            at += if i % 2 == 0 { 0.10 } else { 0.14 };
            events.push(Event::Update(samples::update(0, i + 1, 0, at)));
        }
        events.extend((0..20).map(|i| Event::Update(samples::update(1, i + 1, 0, 0.5 * i as f64))));
        events
    }

    #[test]
    fn delays_are_not_part_of_a_step() {
        let found = calibrate(&log()).unwrap();
        assert!((found.step_s[&0] - 0.12).abs() < 0.002, "{found:?}");
        assert!((found.step_s[&1] - 0.2).abs() < 1e-9, "{found:?}");
        // Worker 0 spreads by a sixth, worker 1 not at all; worker 0 has 35 of 49 steps.
        assert!(
            (found.spread - (35.0f64 / 49.0).sqrt() / 6.0).abs() < 0.003,
            "{found:?}"
        );
    }

    #[test]
    fn settings_are_keys_of_the_schema() {
        let settings = calibrate(&log()).unwrap().settings();
        let keys = settings.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>();
        assert_eq!(
            keys,
            [
                "simulation.step",
                "simulation.step_s",
                "simulation.step_spread",
                "simulation.step_by_worker.0",
                "simulation.step_by_worker.1",
            ]
        );
    }

    #[test]
    fn a_short_log_tells_nothing() {
        assert_eq!(calibrate(&samples::run()), None);
    }
}
