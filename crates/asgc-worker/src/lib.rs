//! The worker daemon: joins a run, computes gradients or evaluates, until the server says stop.
//!
//! The library knows no libtorch: what is trained is a [`Task`], which the binary makes of `asgc-nn` and
//! tests make of a few lines of arithmetic.
//!
//! | room | what lives there |
//! |---|---|
//! | [`task`] | what a worker needs of a model and its data |
//! | [`app`] | joining, and choosing the role's loop |
//! | `trainer` | pull, compute, push |
//! | `evaluator` | pull, measure, report |
//! | `metrics` | the worker's metrics |

pub mod app;
mod evaluator;
mod metrics;
pub mod task;
mod trainer;

pub use app::run;
pub use task::{Computed, Evaluator, Measurement, Task, Trainer};
