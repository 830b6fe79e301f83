//! The worker daemon: joins a run, computes gradients or evaluates, until the server says stop.
//!
//! The library knows no libtorch: what is trained is a [`Task`](asgc_core::task::Task), which the binary makes of `asgc-nn` and
//! tests make of a few lines of arithmetic.
//!
//! | room | what lives there |
//! |---|---|
//! | [`app`] | joining, and choosing the role's loop |
//! | `trainer` | pull, compute, push, by turns |
//! | `pipeline` | the same with pushes under way |
//! | `compute` | one gradient |
//! | `evaluator` | pull, measure, report |
//! | `metrics` | the worker's metrics |

pub mod app;
mod compute;
mod evaluator;
mod metrics;
mod pipeline;
mod trainer;

pub use app::run;
