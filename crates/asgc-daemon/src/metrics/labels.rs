//! Label values for workers, bounded in number so that a scrape stays small whoever joins.

use asgc_core::ids::WorkerId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The label value of all workers beyond the bound.
pub const OTHER: &str = "other";

/// Hands out label values to at most `max` workers at a time; the rest share [`OTHER`].
#[derive(Debug)]
pub struct WorkerLabels {
    max: usize,
    known: Mutex<HashMap<WorkerId, Arc<str>>>,
}

impl WorkerLabels {
    /// At most `max` workers get a value of their own (`telemetry.max_worker_labels`).
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            max,
            known: Mutex::default(),
        }
    }

    /// The label value of `id`: its number, or [`OTHER`] while `max` others have theirs.
    pub fn value(&self, id: WorkerId) -> Arc<str> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(label) = known.get(&id) {
            return Arc::clone(label);
        }
        if known.len() >= self.max {
            return Arc::from(OTHER);
        }
        let label: Arc<str> = Arc::from(id.to_string());
        known.insert(id, Arc::clone(&label));
        label
    }

    /// The label value of `id`, if it has one of its own.
    pub fn known(&self, id: WorkerId) -> Option<Arc<str>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&id).map(Arc::clone)
    }

    /// Frees the place of a worker that left. Returns the value whose series the caller should remove now;
    /// `None` when the worker had no value of its own.
    pub fn forget(&self, id: WorkerId) -> Option<Arc<str>> {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&id)
    }
}
