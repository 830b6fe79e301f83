//! What is trained: the seam between those who drive workers (daemon, simulation) and those who compute gradients.

use crate::ids::WorkerId;
use crate::initial::Recipe;
use crate::layout::Layout;
use std::error::Error;

/// Whatever went wrong in a model or its data, in words.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A model on a data set.
pub trait Task: Send + 'static {
    /// The model's tensors.
    fn layout(&self) -> Result<Layout, BoxError>;

    /// Initial parameters, flat, in layout order: the same ones at every worker of a run.
    fn initial_parameters(&self) -> Result<Vec<f32>, BoxError>;

    /// How [`Task::initial_parameters`] are drawn from `run.seed`; `None` where they are made in another way.
    fn recipe(&self) -> Option<Recipe> {
        None
    }

    /// Computes gradients on one worker's share of the data.
    fn trainer(&self, worker: WorkerId) -> Result<Box<dyn Trainer>, BoxError>;

    /// Measures on the test set.
    fn evaluator(&self) -> Result<Box<dyn Evaluator>, BoxError>;
}

/// A batch's outcome.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Computed {
    /// Mean loss of the batch.
    pub loss: f64,
    /// Samples in the batch.
    pub samples: u32,
}

/// Computes gradients.
pub trait Trainer: Send {
    /// Takes parameters, flat, in layout order.
    fn set_parameters(&mut self, parameters: &[f32]) -> Result<(), BoxError>;

    /// Makes the next batch ready; not part of the measured computing time.
    fn next_batch(&mut self) -> Result<(), BoxError>;

    /// The gradient of the batch's mean loss, written to `gradient` (flat, in layout order).
    fn gradient(&mut self, gradient: &mut [f32]) -> Result<Computed, BoxError>;
}

/// What an evaluation found.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// Share of the test set that was classified rightly.
    pub accuracy: f64,
    /// Mean cross-entropy on the test set.
    pub loss: f64,
    /// Batch-norm statistics as a safetensors file; may be empty.
    pub buffers: Vec<u8>,
}

/// Measures parameters.
pub trait Evaluator: Send {
    /// Loss and accuracy of `parameters` (flat, in layout order).
    fn evaluate(&mut self, parameters: &[f32]) -> Result<Measurement, BoxError>;
}
