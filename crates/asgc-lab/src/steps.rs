//! What trainers' steps are made of.

use asgc_core::event::Event;
use asgc_core::ids::WorkerId;
use std::collections::BTreeMap;

/// One trainer's steps, from its first push on.
#[derive(Debug, Default)]
struct Trainer {
    first_s: f64,
    last_s: f64,
    working_s: f64,
}

/// What trainers' steps are made of, as a fold over events.
#[derive(Debug, Default)]
pub struct Steps {
    trainers: BTreeMap<WorkerId, Trainer>,
}

impl Steps {
    /// Takes one more event.
    pub fn add(&mut self, event: &Event) {
        let Event::Update(update) = event else { return };
        let trainer = self.trainers.entry(update.worker_id).or_insert(Trainer {
            first_s: update.elapsed_s,
            last_s: update.elapsed_s,
            working_s: 0.0,
        });
        // The first push ends a step whose beginning is not known.
        if update.elapsed_s > trainer.last_s {
            // What a log holds as null reads as NaN, and counts as nothing.
            trainer.working_s += (update.compute_s + update.encode_s).max(0.0);
        }
        trainer.last_s = trainer.last_s.max(update.elapsed_s);
    }

    /// Share of trainers' steps, in [0, 1], that is neither computing nor encoding: pushing, waiting for the verdict and
    /// for parameters, and reading a batch. `None` where nobody pushed twice.
    ///
    /// A step goes from one push's arrival to the next one's, so it needs no more than what every log has. Where several
    /// pushes are under way at once, computing hides behind them and the share says how much was not hidden.
    #[must_use]
    pub fn communicating(&self) -> Option<f64> {
        let sum = |of: fn(&Trainer) -> f64| self.trainers.values().map(of).sum::<f64>();
        let (all_s, working_s) = (
            sum(|trainer| trainer.last_s - trainer.first_s),
            sum(|trainer| trainer.working_s),
        );
        (all_s > 0.0).then(|| (1.0 - working_s / all_s).clamp(0.0, 1.0))
    }
}

/// [`Steps::communicating`] of a whole log.
pub fn communicating<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<f64> {
    let mut steps = Steps::default();
    events.into_iter().for_each(|event| steps.add(event));
    steps.communicating()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::update;
    use asgc_core::event::Update;

    fn step(worker: u32, elapsed_s: f64) -> Event {
        Event::Update(Update {
            compute_s: 0.2,
            encode_s: 0.1,
            ..update(worker, 1, 0, elapsed_s)
        })
    }

    #[test]
    fn what_is_not_computed_is_communicated() {
        // Worker 0 takes 1 s a step, worker 1 takes 3 s: of 5 s, 3 * 0.3 s are work.
        let events = [
            step(0, 1.0),
            step(1, 1.5),
            step(0, 2.0),
            step(0, 3.0),
            step(1, 4.5),
        ];
        let share = communicating(&events).unwrap();
        assert!((share - (1.0 - 0.9 / 5.0)).abs() < 1e-12, "{share}");
    }

    #[test]
    fn one_push_tells_nothing_and_more_work_than_time_is_no_share() {
        assert_eq!(communicating(&[step(0, 1.0), step(1, 2.0)]), None);
        assert_eq!(communicating(&[step(0, 1.0), step(0, 1.1)]), Some(0.0));
    }
}
