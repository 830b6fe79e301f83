//! When a trainer begins its next gradient, and when it asks for parameters.
//!
//! With depth `D` up to `D - 1` pushes are encoded, travel or await their verdict while the next gradient is computed:
//!
//! | | a gradient may begin when |
//! |---|---|
//! | `D = 1` | the parameters were asked for behind the last push |
//! | `D > 1` | there are parameters, and fewer than `D` pushes are unsettled |
//! | `D > 1`, `ssp` | and the newest parameters were asked for behind all but the last `D - 1` pushes |
//!
//! The last rule is what lets the server hold a worker back: a pull that it holds stops computing `D - 1` pushes later,
//! so that a worker is at most `slack + D` steps ahead of the slowest. Parameters are asked for behind each push, one
//! pull at a time; a wish while one is open is made good when that is answered.
//!
//! As everything here it holds no clock and does no IO; the worker's loop and the simulation both ask it.

use crate::config::Mode;

/// Counts of one trainer.
#[derive(Debug, Clone)]
pub struct Pipeline {
    depth: u64,
    held_back: bool,
    /// Gradients that were handed in.
    handed: u64,
    /// Those of them that are no longer under way: decided, or never sent.
    settled: u64,
    /// Behind which of them the newest parameters were asked for.
    parameters: Option<u64>,
    /// The same of the pull that is open.
    open: Option<u64>,
    /// The same of a wish that came while a pull was open.
    wished: Option<u64>,
}

impl Pipeline {
    /// For `worker.pipeline_depth` and the run's mode.
    #[must_use]
    pub fn new(depth: u32, mode: Mode) -> Self {
        Self {
            depth: u64::from(depth.max(1)),
            held_back: mode == Mode::Ssp,
            handed: 0,
            settled: 0,
            parameters: None,
            open: None,
            wished: None,
        }
    }

    /// How many pushes may be unsettled before computing waits.
    #[must_use]
    pub fn depth(&self) -> u32 {
        u32::try_from(self.depth).unwrap_or(u32::MAX)
    }

    /// Whether computing goes on while pushes travel.
    #[must_use]
    pub fn is_deep(&self) -> bool {
        self.depth > 1
    }

    /// A gradient was handed in; its number.
    pub fn hand_in(&mut self) -> u64 {
        self.served();
        self.handed += 1;
        self.handed
    }

    /// The number of the gradient that was handed in last; 0 before the first.
    #[must_use]
    pub fn handed(&self) -> u64 {
        self.handed
    }

    /// `count` gradients are no longer under way.
    pub fn settle(&mut self, count: u64) {
        self.settled = self.settled.saturating_add(count).min(self.handed);
    }

    /// Gradients that were handed in and are not settled.
    #[must_use]
    pub fn unsettled(&self) -> u64 {
        self.handed - self.settled
    }

    /// Parameters are wanted behind gradient `behind` (0 before the first); whether to ask now.
    pub fn wish(&mut self, behind: u64) -> bool {
        self.served();
        if self.open.is_some() {
            self.wished = Some(behind);
            return false;
        }
        self.open = Some(behind);
        true
    }

    /// The open pull was answered: parameters came, or those at hand are current. Whether to ask again.
    pub fn answered(&mut self) -> bool {
        self.parameters = self.open.take().or(self.parameters);
        self.wished.take().is_some_and(|behind| self.wish(behind))
    }

    /// The server has begun another life: what it gave before is no longer wanted.
    pub fn forget(&mut self) {
        self.parameters = None;
    }

    /// By turns, parameters serve for one gradient.
    fn served(&mut self) {
        if !self.is_deep() {
            self.parameters = None;
        }
    }

    /// Whether the next gradient may begin.
    #[must_use]
    pub fn may_begin(&self) -> bool {
        let Some(behind) = self.parameters else {
            return false;
        };
        let room = !self.is_deep() || self.unsettled() < self.depth;
        let near = !self.held_back || self.handed.saturating_sub(behind) < self.depth;
        room && near
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_depth_one_each_gradient_needs_a_pull_behind_the_push_before() {
        let mut pipeline = Pipeline::new(1, Mode::Async);
        assert!(!pipeline.may_begin() && pipeline.wish(0) && !pipeline.may_begin());
        assert!(!pipeline.answered() && pipeline.may_begin());
        let first = pipeline.hand_in();
        assert!(!pipeline.may_begin() && pipeline.wish(first) && !pipeline.may_begin());
        pipeline.settle(1);
        assert!(!pipeline.may_begin(), "settled, but not answered");
        assert!(!pipeline.answered() && pipeline.may_begin());
    }

    #[test]
    fn at_depth_one_an_unfit_gradient_asks_anew() {
        let mut pipeline = Pipeline::new(1, Mode::Async);
        pipeline.wish(0);
        pipeline.answered();
        assert!(pipeline.wish(0) && !pipeline.may_begin());
    }

    #[test]
    fn deeper_only_unsettled_pushes_hold_computing_up() {
        let mut pipeline = Pipeline::new(3, Mode::Async);
        pipeline.wish(0);
        assert!(!pipeline.answered() && pipeline.may_begin());
        for expect in [true, true, false] {
            let number = pipeline.hand_in();
            pipeline.wish(number);
            assert_eq!(pipeline.may_begin(), expect, "{} unsettled", pipeline.unsettled());
        }
        pipeline.settle(1);
        assert!(pipeline.may_begin(), "no pull was answered since");
        pipeline.settle(9);
        assert_eq!(pipeline.unsettled(), 0);
    }

    #[test]
    fn one_pull_is_open_at_a_time_and_no_wish_is_lost() {
        let mut pipeline = Pipeline::new(4, Mode::Async);
        assert!(pipeline.wish(0));
        let number = pipeline.hand_in();
        assert!(!pipeline.wish(number));
        let number = pipeline.hand_in();
        assert!(!pipeline.wish(number));
        assert!(pipeline.answered(), "behind the last push");
        assert!(!pipeline.answered());
    }

    #[test]
    fn a_held_pull_holds_an_ssp_worker_back() {
        let mut pipeline = Pipeline::new(3, Mode::Ssp);
        pipeline.wish(0);
        pipeline.answered();
        for expect in [true, true, false] {
            let number = pipeline.hand_in();
            pipeline.wish(number);
            pipeline.settle(1);
            assert_eq!(pipeline.may_begin(), expect);
        }
        assert!(pipeline.answered(), "that was asked behind the first");
        assert!(pipeline.may_begin());
        let number = pipeline.hand_in();
        pipeline.wish(number);
        pipeline.settle(1);
        assert!(!pipeline.may_begin(), "three pushes since");
        assert!(pipeline.answered() && pipeline.may_begin());
    }

    #[test]
    fn a_new_life_of_the_server_begins_with_parameters() {
        let mut pipeline = Pipeline::new(2, Mode::Async);
        pipeline.wish(0);
        pipeline.answered();
        pipeline.forget();
        assert!(!pipeline.may_begin() && pipeline.wish(0));
        pipeline.answered();
        assert!(pipeline.may_begin());
    }
}
