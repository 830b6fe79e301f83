//! Models, data sets, gradients and evaluation on libtorch: the only crate that knows it.
//!
//! Parameters and gradients come and go as flat `f32` slices in [`Layout`](asgc_core::layout::Layout) order;
//! tensors stop here. There is no runtime, channel or protocol in this crate: a [`Trainer`] and an
//! [`Evaluator`] are plain objects that block while they compute, and can be sent to a thread of their own.
//!
//! | room | what lives there |
//! |---|---|
//! | [`model`] | layers and names as PyTorch has them, and their first parameters |
//! | `data` | data sets as bytes, a worker's shard of them, batches |
//! | [`gradient`] | [`Trainer`]: the next batch, its loss and gradient |
//! | [`evaluate`] | [`Evaluator`]: accuracy and loss over the test set, batch-norm recalibration |
//! | `task` | [`Torch`]: all of this as a [`Task`](asgc_core::task::Task) |
//! | `device` | `auto`, `cpu`, `cuda`, `cuda:N`, and threads |
//!
//! Randomness is ours (ChaCha), never libtorch's: first parameters, order and augmentation depend on the
//! seed alone, not on threads, devices or what ran before.

mod data;
mod device;
mod error;
pub mod evaluate;
pub mod gradient;
pub mod model;
mod random;
mod task;

pub use data::{Batch, Cursor};
pub use error::Error;
pub use evaluate::{Evaluation, Evaluator, EvaluatorSpec};
pub use gradient::{Step, Trainer, TrainerSpec};
pub use model::{initial_parameters, layout, recipe};
pub use task::Torch;
