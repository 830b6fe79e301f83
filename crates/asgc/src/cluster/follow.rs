//! Progress from the log of a run that goes on.

use super::POLL;
use crate::output::Screen;
use crate::tail::Tail;
use asgc_lab::Progress;
use std::path::PathBuf;
use std::time::Duration;

/// Shows progress from the log while it grows.
pub(super) struct Follower {
    /// `None` when the log could not be followed further.
    tail: Option<Tail>,
    progress: Progress,
    /// How long to wait before the next look.
    pub(super) pause: Duration,
}

impl Follower {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            tail: Some(Tail::new(path)),
            progress: Progress::default(),
            pause: POLL.0,
        }
    }

    /// Shows what came since the last look.
    pub(super) fn show(&mut self, screen: &mut Screen) {
        let events = match self.tail.as_mut().map_or(Ok(Vec::new()), Tail::poll) {
            Ok(events) => events,
            Err(error) => {
                screen.remark(&format!("no more progress is shown: {error}"));
                self.tail = None;
                return;
            }
        };
        self.pause = if events.is_empty() {
            (self.pause * 2).min(POLL.1)
        } else {
            POLL.0 * 5
        };
        if events.is_empty() {
            return;
        }
        for event in &events {
            self.progress.add(event);
        }
        screen.show(&self.progress);
    }
}
