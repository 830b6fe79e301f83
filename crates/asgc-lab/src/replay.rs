//! A log recomputed: every version, weight, window, decision and total, by the core's own code.
//!
//! What the server logged must follow from what it had logged before, under the configuration in `run_start`. The first
//! line that does not is a [`Difference`]. What no other line tells (times, norms, losses that a worker measured, bytes
//! on sockets) is taken as it stands, though a changed one shows in the next decision that was based on it.

mod totals;
mod updates;

use crate::log::{Folded, ReadError, fold_log};
use asgc_core::config::{Config, Mode};
use asgc_core::controller::Controller;
use asgc_core::event::{Control, Event, RunStart, Update};
use asgc_core::ids::{Version, WorkerId};
use asgc_core::optimizer::Schedule;
use asgc_core::staleness::Policy;
use std::path::{Path, PathBuf};
use totals::Totals;
use updates::Round;

/// A line that does not follow from those before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: the log says {logged}, recomputed {recomputed}")]
pub struct Difference {
    /// Which field, or which rule.
    pub what: String,
    /// As it is in the log.
    pub logged: String,
    /// As it should be.
    pub recomputed: String,
}

/// Why a log was not replayed to its end.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It cannot be replayed at all.
    #[error("{}: {}", .0.display(), .1)]
    Unfit(PathBuf, &'static str),
    /// It is not what the server would have logged.
    #[error("{}:{line}: {difference}", .path.display())]
    Differs {
        /// Which file.
        path: PathBuf,
        /// Which line, counted from 1.
        line: usize,
        /// What differs.
        difference: Difference,
    },
}

/// What was replayed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Events.
    pub events: u64,
    /// Versions made.
    pub versions: u64,
    /// Decisions of the controller, and changes by hand.
    pub decisions: u64,
    /// Whether the log has its last line.
    pub ended: bool,
}

/// Replays the log at `path`; `progress` is called with each event's number.
///
/// # Errors
/// At the first line that differs, or that cannot be read.
pub fn replay(path: &Path, mut progress: impl FnMut(u64)) -> Result<Replayed, ReplayError> {
    let mut replay: Option<Replay> = None;
    let mut events = 0;
    let folded = fold_log(path, |place, event| {
        events += 1;
        progress(events);
        let outcome = match (&mut replay, &event) {
            (Some(replay), _) => replay.take(&event),
            (none, Event::RunStart(start)) => match Replay::new(start) {
                Some(begun) => {
                    none.insert(begun).observe(&event);
                    Ok(())
                }
                None => {
                    return Err(unfit(
                        place.path,
                        "run_start has no config: the log is of an older program",
                    ));
                }
            },
            (None, _) => return Err(unfit(place.path, "the first line is no run_start")),
        };
        outcome.map_err(|difference| ReplayError::Differs {
            path: place.path.to_owned(),
            line: place.line,
            difference,
        })
    })?;
    if let Folded::Broken(error) = folded {
        return Err(error);
    }
    let replay = replay.ok_or_else(|| unfit(path, "there is no event in it"))?;
    Ok(Replayed {
        events,
        versions: replay.version.0,
        decisions: replay.decisions,
        ended: replay.ended,
    })
}

fn unfit(path: &Path, why: &'static str) -> ReplayError {
    ReplayError::Unfit(path.to_owned(), why)
}

/// The state that the lines so far lead to.
struct Replay {
    mode: Mode,
    policy: Policy,
    schedule: Schedule,
    controller: Controller,
    parameters: u64,
    version: Version,
    round: Round,
    totals: Totals,
    last_s: f64,
    decisions: u64,
    ended: bool,
}

impl Replay {
    fn new(start: &RunStart) -> Option<Self> {
        let config: &Config = start.config.as_deref()?;
        Some(Self {
            mode: config.mode(),
            policy: Policy::new(&config.staleness),
            schedule: Schedule::new(config),
            controller: Controller::new(config),
            parameters: start.parameters,
            version: Version(0),
            round: Round::default(),
            totals: Totals::default(),
            last_s: 0.0,
            decisions: 0,
            ended: false,
        })
    }

    fn observe(&mut self, event: &Event) {
        self.controller.observe(event);
    }

    fn take(&mut self, event: &Event) -> Result<(), Difference> {
        if self.ended {
            return Err(differs("after run_end", event_name(event), "nothing"));
        }
        self.in_order(event)?;
        match event {
            Event::Update(update) => self.update(update)?,
            Event::Control(control) => self.control(control)?,
            Event::RunEnd(end) => {
                self.round.end()?;
                self.totals.check(end, self.version, self.parameters)?;
                self.ended = true;
            }
            Event::RunStart(_) => return Err(differs("a second beginning", "run_start", "none")),
            Event::Eval(eval) => self.totals.eval(eval),
            Event::Join(_) | Event::Leave(_) => {}
        }
        self.observe(event);
        Ok(())
    }

    /// Time never falls from line to line.
    fn in_order(&mut self, event: &Event) -> Result<(), Difference> {
        let now_s = match event {
            Event::Update(update) => update.elapsed_s,
            Event::Control(control) => control.elapsed_s,
            Event::Join(join) => join.elapsed_s,
            Event::Leave(leave) => leave.elapsed_s,
            Event::Eval(eval) => eval.reported_s,
            // The end is that of training, which draining comes after.
            Event::RunEnd(_) | Event::RunStart(_) => return Ok(()),
        };
        if now_s < self.last_s {
            return Err(differs("time", now_s, format!("{} or more", self.last_s)));
        }
        self.last_s = now_s;
        Ok(())
    }

    fn update(&mut self, update: &Update) -> Result<(), Difference> {
        // A decision that is due comes before whatever is applied; what a round applies is one step.
        let applies = update.weight > 0.0 && update.version > self.version;
        if applies && self.controller.is_on() && self.controller.is_due(update.elapsed_s) {
            return Err(differs(
                "a decision that was due",
                "none",
                "a control event before this line",
            ));
        }
        self.check_update(update)?;
        self.totals.update(update);
        Ok(())
    }

    fn control(&mut self, control: &Control) -> Result<(), Difference> {
        self.decisions += 1;
        let again = match &control.operator {
            Some(operator) => self
                .controller
                .set_by_hand(control.elapsed_s, operator.clone())
                .map_err(|why| differs("a change by hand", "done", format!("refused: {why}")))?,
            None => self
                .controller
                .decide(control.elapsed_s)
                .ok_or_else(|| differs("a decision", "taken", "not due yet"))?,
        };
        self.policy.set_s_max(self.controller.s_max());
        first_difference(control, &again)
    }

    /// What a push may have been encoded under at most.
    fn revision(&self, worker: WorkerId) -> u64 {
        self.controller.controls(worker).revision.0
    }
}

/// The first field that differs, as JSON.
fn first_difference(logged: &Control, recomputed: &Control) -> Result<(), Difference> {
    if logged == recomputed {
        return Ok(());
    }
    let (logged, recomputed) = (json(logged), json(recomputed));
    let fields = logged.as_object().into_iter().flatten();
    for (field, value) in fields {
        let again = recomputed.get(field).unwrap_or(&serde_json::Value::Null);
        if value != again {
            return Err(differs(&format!("control.{field}"), value, again));
        }
    }
    Err(differs("control", logged, recomputed))
}

fn json(control: &Control) -> serde_json::Value {
    serde_json::to_value(control).unwrap_or_default()
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "numbers and words, straight from where they are made"
)]
fn differs(what: &str, logged: impl ToString, recomputed: impl ToString) -> Difference {
    Difference {
        what: what.to_owned(),
        logged: logged.to_string(),
        recomputed: recomputed.to_string(),
    }
}

/// `Ok` where both are the same.
fn same<T: PartialEq + ToString>(what: &str, logged: T, recomputed: T) -> Result<(), Difference> {
    if logged == recomputed {
        Ok(())
    } else {
        Err(differs(what, logged, recomputed))
    }
}

fn event_name(event: &Event) -> &'static str {
    match event {
        Event::RunStart(_) => "run_start",
        Event::Join(_) => "join",
        Event::Leave(_) => "leave",
        Event::Update(_) => "update",
        Event::Eval(_) => "eval",
        Event::Control(_) => "control",
        Event::RunEnd(_) => "run_end",
    }
}

#[cfg(test)]
#[path = "replay/tests.rs"]
mod tests;
