//! Runs on virtual time: server, workers and links in one process.
//!
//! The state machines are the daemons' own ([`asgc_core::server::Server`], [`asgc_core::worker::Worker`]), gradients
//! are real, and nothing waits: computing takes as long as the model of a machine says, messages as long as the model
//! of a link says, and the run goes from one happening to the next. The same configuration gives the same events, byte
//! for byte, on any number of threads.
//!
//! | room | what lives there |
//! |---|---|
//! | `agenda` | happenings by virtual time |
//! | `cluster` | server, trainers and evaluator, joined by the network |
//! | `trainer` | a trainer's loop |
//! | `network`, `pipe`, `loss` | links: order and distance, capacity, lost packets |
//! | `steps`, `measure` | how long computing takes |
//! | `pool` | threads that compute meanwhile |

mod agenda;
mod cluster;
mod held;
mod loss;
mod measure;
mod network;
mod pipe;
mod pool;
mod steps;
mod trainer;

#[cfg(test)]
mod tests;

pub use measure::step_s;

use asgc_core::config::Config;
use asgc_core::event::Event;
use asgc_core::task::{BoxError, Task};

/// Who watches a run.
pub trait Observer {
    /// The server logs an event.
    ///
    /// # Errors
    /// Ends the run: a log with a hole is worth nothing.
    fn event(&mut self, event: Event) -> Result<(), BoxError>;

    /// Whether the run is to drain.
    fn asked_to_stop(&self) -> bool {
        false
    }
}

/// A run could not begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The model, its data or a computation failed.
    #[error(transparent)]
    Task(#[from] BoxError),
    /// The event could not be logged.
    #[error("the log cannot be written: {0}")]
    Log(BoxError),
    /// A worker was refused.
    #[error("the server refused a worker: {0}")]
    Refused(String),
    /// `simulation.step_s` was not filled in.
    #[error("simulation.step_s is 0: measure a step first (simulation.step = \"measured\"), or set it")]
    NoStepTime,
    /// Threads could not be started.
    #[error("cannot start computing threads: {0}")]
    Threads(#[from] std::io::Error),
}

/// Simulates the run that `config` describes; `threads` compute (at least one does).
///
/// # Errors
/// When data cannot be read, a computation fails, or `observer` does not take an event.
pub fn simulate(
    config: &Config,
    task: &dyn Task,
    threads: usize,
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    if config.simulation.step_s <= 0.0 {
        return Err(Error::NoStepTime);
    }
    let pool = pool::Pool::new(threads)?;
    let mut config = config.clone();
    // The log is the same on any number of threads, so it must not speak of them.
    config.simulation.threads = 0;
    cluster::Cluster::new(config, task, pool, observer)?.run()
}
