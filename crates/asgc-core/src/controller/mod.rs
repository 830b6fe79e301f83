//! The adaptive controller: how hard workers compress and how stale a push may be, from events alone.
//!
//! Every `interval_s` (or `interval_versions`) it reads the window of events since its last decision and decides. It sees
//! nothing but the events that are logged, so that replaying a log gives the same decisions.
//!
//! | room | what it does |
//! |---|---|
//! | [`window`], [`smoothed`] | events into the signals of the whole run |
//! | [`links`], [`uplink`], [`recent`] | events into what is known of each trainer |
//! | [`policy`] | `threshold` and `score`: signals into a direction and a reason |
//! | [`budget`], [`guard`] | `budget`: each trainer's link into its codec, as far as quality allows |
//! | [`bounds`] | a direction into a step that keeps its limits |
//! | [`assignments`] | who compresses with what, since which revision; pins |
//! | `course` | where each policy wants to go |
//! | `decision` | one decision, put together |
//! | `by_hand` | changes by an operator |
//! | [`report`] | what is in force, for whoever asks |
//!
//! Safer is more of every gradient and less staleness; aggressive is the reverse. `s_low` and `beta` never move.

pub mod assignments;
pub mod bounds;
pub mod budget;
mod by_hand;
mod course;
mod decision;
pub mod guard;
pub mod links;
pub mod policy;
pub mod recent;
pub mod report;
pub mod smoothed;
pub mod uplink;
pub mod window;

#[cfg(test)]
mod tests;

use crate::codec::Codec;
use crate::config::{self, Config, ControlPolicy, Mode};
use crate::event::{Control, Event};
use crate::ids::{Staleness, Version, WorkerId};
use crate::push::Controls;
use assignments::Assignments;
use bounds::Bounds;
use guard::Guard;
use links::Links;
use std::collections::VecDeque;
use window::Window;

/// Decisions that are kept to be asked for.
const REMEMBERED: usize = 16;

/// The controller of one run.
#[derive(Debug, Clone)]
pub struct Controller {
    config: config::Controller,
    /// `compression.auto`.
    auto: bool,
    /// Whether there is a bound on staleness to be moved.
    bounded: bool,
    configured: Codec,
    bounds: Bounds,
    window: Window,
    links: Links,
    guard: Guard,
    assignments: Assignments,
    s_max: u64,
    s_max_pinned: bool,
    /// Unstable windows in a row.
    streak: u32,
    /// Evaluators that joined and did not leave.
    evaluators: u64,
    /// When the window began, in seconds of the run.
    since_s: f64,
    version: Version,
    due: Due,
    /// The last decisions, the latest last.
    recent: VecDeque<Control>,
}

/// When the next decision is due.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Due {
    At(f64),
    Version(u64),
}

impl Controller {
    /// The controller that a checked configuration describes. Where it is switched off, operators still change the
    /// controls through it.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let controller = &config.controller;
        // A checked configuration has a codec.
        let codec = config.compression.codec().unwrap_or(Codec::Identity);
        let due = controller.interval_versions;
        Self {
            auto: config.compression.auto,
            bounded: config.staleness.enabled && config.mode() != Mode::Sync,
            configured: codec,
            bounds: Bounds::new(controller, config.staleness.s_low),
            window: Window::default(),
            links: Links::default(),
            guard: Guard::new(controller),
            assignments: Assignments::new(codec),
            s_max: config.staleness.s_max,
            s_max_pinned: false,
            streak: 0,
            evaluators: 0,
            since_s: 0.0,
            version: Version(0),
            recent: VecDeque::new(),
            due: due.map_or(Due::At(controller.interval_s), Due::Version),
            config: controller.clone(),
        }
    }

    /// Takes note of an event, in the order of the log.
    pub fn observe(&mut self, event: &Event) {
        self.window.fold(event);
        self.links.fold(event);
        match event {
            Event::Update(update) => {
                self.version = self.version.max(update.version);
                self.assignments.know(update.worker_id);
            }
            Event::Join(join) => match join.worker_id {
                Some(worker) => self.assignments.know(worker),
                None => self.evaluators += 1,
            },
            Event::Leave(leave) if leave.worker_id.is_none() => {
                self.evaluators = self.evaluators.saturating_sub(1);
            }
            _ => {}
        }
    }

    /// Decides if a decision is due, and empties the window.
    pub fn decide(&mut self, elapsed_s: f64) -> Option<Control> {
        if !self.is_on() || !self.is_due(elapsed_s) {
            return None;
        }
        self.due = match self.config.interval_versions {
            None => Due::At(next_due(elapsed_s, self.config.interval_s)),
            Some(interval) => Due::Version((self.version.0 / interval + 1) * interval),
        };
        let signals = std::mem::take(&mut self.window).signals(self.evaluators > 0);
        let control = self.decision(elapsed_s, &signals);
        self.remember(&control);
        self.links.begin_window();
        self.since_s = elapsed_s;
        Some(control)
    }

    /// Whether a decision is due, or will be by itself.
    #[must_use]
    pub fn is_due(&self, elapsed_s: f64) -> bool {
        match self.due {
            Due::At(due_s) => elapsed_s >= due_s,
            Due::Version(version) => self.version.0 >= version,
        }
    }

    /// Whether anything is decided at all: by a policy, or by `compression.auto`.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.config.enabled || self.auto
    }

    /// What a trainer is to use now.
    #[must_use]
    pub fn controls(&self, worker: WorkerId) -> Controls {
        self.assignments.of(worker)
    }

    /// Beyond this staleness a push is rejected now.
    #[must_use]
    pub fn s_max(&self) -> Staleness {
        Staleness(self.s_max)
    }

    fn remember(&mut self, control: &Control) {
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(control.clone());
    }

    fn policy_name(&self) -> &'static str {
        self.policy().map_or("none", ControlPolicy::as_str)
    }

    fn policy(&self) -> Option<ControlPolicy> {
        self.config.enabled.then_some(self.config.policy)
    }
}

/// The first multiple of the interval after `elapsed_s`: a decision that came late leaves those that it missed
/// out, since their windows would be empty.
fn next_due(elapsed_s: f64, interval_s: f64) -> f64 {
    let passed = (elapsed_s / interval_s).floor();
    let due = (passed + 1.0) * interval_s;
    // The quotient may have been rounded down to a whole number.
    if due > elapsed_s { due } else { due + interval_s }
}
