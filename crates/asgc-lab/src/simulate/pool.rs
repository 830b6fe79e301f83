//! Threads that compute while virtual time stands still.
//!
//! A gradient depends on the parameters and the batch, not on when it is computed, and nothing of it is needed before
//! the virtual moment at which it is done. So it is begun as soon as its parameters are there and waited for at that
//! moment: results, and with them the run, are the same on any number of threads.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// A fixed number of threads. With one, everything is computed on the caller's thread when it is waited for.
pub(super) struct Pool {
    queue: Option<Arc<Queue>>,
}

/// Jobs that wait for a thread.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    closed: bool,
}

/// A result that will be there.
pub(super) enum Pending<T> {
    /// Nobody computes it yet.
    Later(Box<dyn FnOnce() -> T + Send>),
    /// Another thread does.
    Elsewhere(Receiver<T>),
}

/// A thread panicked while it computed; its message is on stderr.
#[derive(Debug, thiserror::Error)]
#[error("a computing thread panicked; its message is above")]
pub(super) struct Panicked;

impl Pool {
    /// # Errors
    /// When a thread cannot be started.
    pub(super) fn new(threads: usize) -> std::io::Result<Self> {
        if threads <= 1 {
            return Ok(Self { queue: None });
        }
        let queue = Arc::new(Queue::default());
        for i in 0..threads {
            let queue = Arc::clone(&queue);
            thread::Builder::new()
                .name(format!("compute-{i}"))
                .spawn(move || queue.work())?;
        }
        Ok(Self { queue: Some(queue) })
    }

    pub(super) fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Pending<T> {
        let Some(queue) = &self.queue else {
            return Pending::Later(Box::new(job));
        };
        let (done, result): (Sender<T>, _) = mpsc::channel();
        queue.put(Box::new(move || {
            // Nobody waits for it any more where the run has ended.
            let _ = done.send(job());
        }));
        Pending::Elsewhere(result)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(queue) = &self.queue {
            let mut state = queue.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.closed = true;
            state.jobs.clear();
            queue.changed.notify_all();
        }
    }
}

impl Queue {
    fn put(&self, job: Job) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.jobs.push_back(job);
        self.changed.notify_one();
    }

    fn work(&self) {
        while let Some(job) = self.take() {
            job();
        }
    }

    fn take(&self) -> Option<Job> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Pending<T> {
    /// Waits until it is there.
    pub(super) fn get(self) -> Result<T, Panicked> {
        match self {
            Self::Later(job) => Ok(job()),
            Self::Elsewhere(result) => result.recv().map_err(|_| Panicked),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_belong_to_their_jobs_on_any_number_of_threads() {
        for threads in [0, 1, 2, 5] {
            let pool = Pool::new(threads).unwrap();
            let pending = (0..50).map(|i| pool.run(move || i * i)).collect::<Vec<_>>();
            // Waited for in another order than they were begun in.
            let found = pending.into_iter().rev().map(|p| p.get().unwrap());
            assert!(found.eq((0..50).rev().map(|i| i * i)), "{threads} threads");
        }
    }

    #[test]
    fn a_panic_is_told_and_does_not_hang() {
        let pool = Pool::new(2).unwrap();
        let broken = pool.run(|| -> u32 { panic!("meant to") });
        assert!(broken.get().is_err());
        assert_eq!(pool.run(|| 3).get().unwrap(), 3, "the other thread goes on");
    }

    #[test]
    fn what_nobody_waits_for_is_dropped_with_the_pool() {
        let pool = Pool::new(2).unwrap();
        for i in 0..1000 {
            drop(pool.run(move || i));
        }
        drop(pool);
    }
}
