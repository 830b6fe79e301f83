//! Where events go: to the log, and into the metrics.

use crate::metrics::Metrics;
use asgc_core::event::Event;
use asgc_daemon::event_log::{EventLog, Report};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long the disk may take for the last events.
const CLOSE_WITHIN: Duration = Duration::from_secs(10);

pub(crate) struct Sink {
    log: EventLog,
    metrics: Arc<Metrics>,
}

impl Sink {
    pub(crate) fn new(log: EventLog, metrics: Arc<Metrics>) -> Self {
        Self { log, metrics }
    }

    pub(crate) fn emit(&self, event: Event) {
        match &event {
            Event::Join(join) => {
                let (role, worker, name) = (&join.role, join.worker_id.map(|id| id.0), &join.name);
                tracing::info!(role, worker, name, rejoined = join.rejoined, "joined");
            }
            Event::Leave(leave) => {
                let (role, worker, reason) = (&leave.role, leave.worker_id.map(|id| id.0), &leave.reason);
                tracing::info!(role, worker, reason, "left");
            }
            Event::Eval(eval) => tracing::info!(
                version = eval.version.0,
                accuracy = eval.test_accuracy,
                loss = eval.test_loss,
                "evaluated"
            ),
            Event::RunStart(start) => {
                tracing::info!(
                    mode = start.mode,
                    compression = start.compression,
                    "the run begins"
                );
            }
            Event::Control(control) => tracing::info!(
                policy = control.policy,
                mode = control.compression_mode,
                compression = control.new_compression,
                s_max = control.new_s_max,
                reason = control.reason,
                "controlled"
            ),
            Event::RunEnd(end) => tracing::info!(
                applied = end.applied_updates,
                rejected = end.rejected_updates,
                updates_per_s = end.updates_per_sec,
                reason = end.reason,
                "the run is over"
            ),
            Event::Update(_) => {}
        }
        self.metrics.observe(&event);
        self.log.write(event);
    }

    /// Whether the log has ended early.
    pub(crate) fn failed(&self) -> bool {
        self.log.failed()
    }

    /// The log's file.
    pub(crate) fn path(&self) -> &Path {
        self.log.path()
    }

    pub(crate) fn lost(&self) -> u64 {
        self.log.lost()
    }

    pub(crate) fn close(self) -> Report {
        self.log.close(CLOSE_WITHIN)
    }
}
