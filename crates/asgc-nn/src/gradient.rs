//! Gradients: a worker's next batch, its mean cross entropy and the gradient of that.

use crate::data::{self, Batch, Cursor, Sampler, Sampling};
use crate::device;
use crate::error::Error;
use crate::model::{self, MOMENTUM, Mode, Network};
use asgc_core::config::{Dataset, Model};
use asgc_core::ids::WorkerId;
use asgc_core::layout::Layout;
use std::path::PathBuf;
use tch::{Kind, Reduction, Tensor};

/// What a [`Trainer`] trains, on what, where.
#[derive(Debug, Clone)]
pub struct TrainerSpec {
    /// The data set; it must fit the model.
    pub dataset: Dataset,
    /// Where data sets lie; the procedural one needs none.
    pub data_root: PathBuf,
    /// The model.
    pub model: Model,
    /// Samples in a batch, at least 1; the last batch of a pass may hold fewer.
    pub batch_size: usize,
    /// The run's seed: order and augmentation follow `seed + 1000 + worker`.
    pub seed: u64,
    /// Which shard: samples `i` with `i mod num_workers == worker mod num_workers`.
    pub worker: WorkerId,
    /// How many shards there are; 0 reads as 1.
    pub num_workers: u32,
    /// `auto`, `cpu`, `cuda` or `cuda:N`.
    pub device: String,
    /// Threads of libtorch, 1 to 1024; the setting is the process's.
    pub threads: usize,
}

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Mean cross entropy over the batch.
    pub loss: f32,
    /// Samples in the batch.
    pub samples: u32,
}

/// Computes gradients on one worker's shard.
#[derive(Debug)]
pub struct Trainer {
    layout: Layout,
    network: Network,
    sampler: Sampler,
}

impl Trainer {
    /// Reads the shard and builds the model; its parameters are zeros until they are set.
    ///
    /// # Errors
    /// [`Error::Mismatch`], [`Error::Device`] and [`Error::Setting`] for a specification that cannot be had,
    /// [`Error::Data`] for files, [`Error::Torch`] when memory runs out.
    pub fn new(spec: &TrainerSpec) -> Result<Self, Error> {
        data::check_fits(spec.model, spec.dataset)?;
        let device = device::parse(&spec.device)?;
        device::set_threads(spec.threads)?;
        let sampling = Sampling {
            dataset: spec.dataset,
            root: &spec.data_root,
            batch_size: spec.batch_size,
            seed: spec.seed,
            worker: spec.worker,
            num_workers: spec.num_workers,
        };
        Ok(Self {
            layout: model::layout(spec.model)?,
            network: Network::new(spec.model, device)?,
            sampler: Sampler::new(&sampling, device)?,
        })
    }

    /// The model's tensors, in the order of parameters and gradients.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Samples in this worker's shard.
    #[must_use]
    pub fn shard_len(&self) -> usize {
        self.sampler.len()
    }

    /// The place in the data: what the next batch begins with.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        self.sampler.cursor()
    }

    /// Goes to a place, such as the one an earlier life of this worker had reached; a position beyond the
    /// shard is the end of its pass.
    pub fn seek(&mut self, cursor: Cursor) {
        self.sampler.seek(cursor);
    }

    /// Copies all parameters, flat in layout order, to the device.
    ///
    /// # Errors
    /// [`Error::Length`] unless there are as many as in the layout.
    pub fn set_parameters(&mut self, parameters: &[f32]) -> Result<(), Error> {
        self.network.set_parameters(parameters)
    }

    /// Cuts the next batch, reshuffling the shard where a pass ends, and copies it to the device.
    ///
    /// # Errors
    /// [`Error::Torch`] when memory runs out.
    pub fn next_batch(&mut self) -> Result<Batch, Error> {
        self.sampler.next_batch()
    }

    /// Forward, mean cross entropy, backward: fills `gradient`, flat in layout order, overwriting it.
    ///
    /// Batch norm works by the batch's own statistics. Entries may be NaN or infinite when the model
    /// diverged; the caller sees that in what it gets.
    ///
    /// # Errors
    /// [`Error::Length`] unless `gradient` has as many entries as the layout; [`Error::Torch`].
    pub fn gradient(&mut self, batch: &Batch, gradient: &mut [f32]) -> Result<Step, Error> {
        let logits = self.network.forward(&batch.images, Mode::Train(MOMENTUM))?;
        let loss = cross_entropy(&logits, &batch.labels, Reduction::Mean)?;
        self.network.backward(&loss, gradient)?;
        Ok(Step {
            loss: loss.f_double_value(&[])? as f32,
            samples: batch.samples(),
        })
    }

    /// [`Trainer::next_batch`] and [`Trainer::gradient`] in one.
    ///
    /// # Errors
    /// As theirs.
    pub fn step(&mut self, gradient: &mut [f32]) -> Result<Step, Error> {
        let batch = self.next_batch()?;
        self.gradient(&batch, gradient)
    }
}

/// Cross entropy of logits `[n, 10]` against classes `[n]`, a scalar.
pub(crate) fn cross_entropy(logits: &Tensor, labels: &Tensor, reduction: Reduction) -> Result<Tensor, Error> {
    let picked = logits.f_log_softmax(-1, None::<Kind>)?;
    Ok(picked.f_nll_loss_nd(labels, None::<&Tensor>, reduction, -100)?)
}

#[cfg(test)]
mod tests;
