//! Accuracy and loss over the whole test set.
//!
//! **Recalibration.** The server applies updates and never sees a forward pass, so the batch-norm statistics of
//! its model do not exist until somebody computes them. Before each evaluation some training batches go
//! forward in train mode, without gradients, and their statistics are averaged with
//! `m_k = max(0.1, 1 / k)` as the weight of batch `k`: PyTorch's momentum of 0.1, but for the first ten
//! batches, which are averaged plainly. So the statistics start from the data instead of from mean 0 and
//! variance 1, and do not go on from the evaluation before. Both would make a measurement depend on more than the
//! parameters it measures: with 64 batches a start still weighs 0.1 %, with 8 it weighs 43 %. The batches are
//! the same each time, so an evaluation is a function of the parameters and the run's seed alone, whichever
//! evaluator makes it and whatever it evaluated before.

use crate::data::{self, Cursor, Cutter, Images, Part, Sampler, Sampling, Shape, Shard};
use crate::device;
use crate::error::Error;
use crate::gradient::cross_entropy;
use crate::model::{MOMENTUM, Mode, Network};
use asgc_core::config::{Dataset, Model};
use asgc_core::ids::WorkerId;
use safetensors::{Dtype, tensor::TensorView};
use std::path::PathBuf;
use tch::{Reduction, Tensor};

/// What an [`Evaluator`] measures, on what, where.
#[derive(Debug, Clone)]
pub struct EvaluatorSpec {
    /// The data set; it must fit the model.
    pub dataset: Dataset,
    /// Where data sets lie; the procedural one needs none.
    pub data_root: PathBuf,
    /// The model.
    pub model: Model,
    /// Samples in a test batch, at least 1.
    pub eval_batch_size: usize,
    /// Training batches of worker 0's first pass that recalibrate batch norm, as many as the pass has at most; 0
    /// leaves mean 0 and variance 1. Models without batch norm read no training data.
    pub recalibration_batches: usize,
    /// Samples in a training batch, as the run's trainers have them.
    pub batch_size: usize,
    /// The run's seed.
    pub seed: u64,
    /// How many shards the training data is in; 0 reads as 1.
    pub num_workers: u32,
    /// `auto`, `cpu`, `cuda` or `cuda:N`.
    pub device: String,
    /// Threads of libtorch, 1 to 1024; the setting is the process's.
    pub threads: usize,
}

/// What an evaluation found.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Share of the test set whose class was found, 0 to 1.
    pub accuracy: f64,
    /// Mean cross entropy over the test set.
    pub loss: f64,
    /// The batch-norm statistics as a safetensors file: `*.running_mean` and `*.running_var` as `f32`,
    /// `*.num_batches_tracked` as `i64`. A file without tensors where the model has no batch norm.
    pub buffers: Vec<u8>,
}

/// Measures parameters on the test set.
#[derive(Debug)]
pub struct Evaluator {
    network: Network,
    test: Images,
    cutter: Cutter,
    batch_size: usize,
    /// Where the recalibration's batches come from, and how many.
    recalibration: Option<(Sampler, usize)>,
}

impl Evaluator {
    /// Reads the test set, and worker 0's shard where the model has batch norm.
    ///
    /// # Errors
    /// As those of [`Trainer::new`](crate::Trainer::new).
    pub fn new(spec: &EvaluatorSpec) -> Result<Self, Error> {
        data::check_fits(spec.model, spec.dataset)?;
        let batch_size = spec.eval_batch_size;
        if !(1..=1 << 20).contains(&batch_size) {
            let name = "worker.eval_batch_size";
            return Err(Error::Setting {
                name,
                range: "1 to 1048576",
                value: batch_size,
            });
        }
        let device = device::parse(&spec.device)?;
        device::set_threads(spec.threads)?;
        let network = Network::new(spec.model, device)?;
        let recalibration = if network.norms.is_empty() || spec.recalibration_batches == 0 {
            None
        } else {
            let sampler = Sampler::new(&worker_zero(spec), device)?;
            let batches = sampler
                .len()
                .div_ceil(spec.batch_size)
                .min(spec.recalibration_batches);
            Some((sampler, batches))
        };
        let test = data::load(spec.dataset, &spec.data_root, Part::Test, Shard::ALL)?;
        if test.len() == 0 {
            return Err(Error::data(
                &spec.data_root,
                "the test set is empty",
                "get the data set again",
            ));
        }
        let cutter = Cutter::new(Shape::of(spec.dataset), device);
        Ok(Self {
            network,
            test,
            cutter,
            batch_size,
            recalibration,
        })
    }

    /// Measures flat `parameters` in layout order: recalibrates batch norm, then goes once through the test
    /// set.
    ///
    /// # Errors
    /// [`Error::Length`] unless there are as many as in the layout; [`Error::Torch`].
    pub fn evaluate(&mut self, parameters: &[f32]) -> Result<Evaluation, Error> {
        let _no_grad = tch::no_grad_guard();
        self.network.set_parameters(parameters)?;
        let tracked = self.recalibrate()?;
        let (mut correct, mut loss) = (0, 0.0);
        let indices: Vec<u32> = (0..self.test.len() as u32).collect();
        for indices in indices.chunks(self.batch_size) {
            let batch = self.cutter.cut(&self.test, indices, None)?;
            let logits = self.network.forward(&batch.images, Mode::Evaluate)?;
            let hits = logits
                .f_argmax(-1, false)?
                .f_eq_tensor(&batch.labels)?
                .f_sum(tch::Kind::Int64)?;
            correct += hits.f_int64_value(&[])?;
            loss += cross_entropy(&logits, &batch.labels, Reduction::Sum)?.f_double_value(&[])?;
        }
        let samples = self.test.len() as f64;
        Ok(Evaluation {
            accuracy: correct as f64 / samples,
            loss: loss / samples,
            buffers: statistics(&self.network, tracked)?,
        })
    }

    /// Returns how many batches went into the statistics.
    fn recalibrate(&mut self) -> Result<usize, Error> {
        self.network.reset_norms()?;
        let Some((sampler, batches)) = &mut self.recalibration else {
            return Ok(0);
        };
        sampler.seek(Cursor::default());
        for k in 1..=*batches {
            let batch = sampler.next_batch()?;
            let weight = MOMENTUM.max(1.0 / k as f64);
            let _logits = self.network.forward(&batch.images, Mode::Train(weight))?;
        }
        Ok(*batches)
    }
}

fn worker_zero(spec: &EvaluatorSpec) -> Sampling<'_> {
    Sampling {
        dataset: spec.dataset,
        root: &spec.data_root,
        batch_size: spec.batch_size,
        seed: spec.seed,
        worker: WorkerId(0),
        num_workers: spec.num_workers,
    }
}

/// The batch-norm statistics as safetensors.
fn statistics(network: &Network, tracked: usize) -> Result<Vec<u8>, Error> {
    let mut buffers = Vec::with_capacity(3 * network.norms.len());
    for norm in &network.norms {
        for (part, values) in [("running_mean", &norm.mean), ("running_var", &norm.variance)] {
            buffers.push((
                format!("{}.{part}", norm.name),
                Dtype::F32,
                values.size(),
                bytes(values)?,
            ));
        }
        let count = (tracked as i64).to_le_bytes().to_vec();
        buffers.push((
            format!("{}.num_batches_tracked", norm.name),
            Dtype::I64,
            vec![],
            count,
        ));
    }
    let mut views = Vec::with_capacity(buffers.len());
    for (name, dtype, shape, bytes) in &buffers {
        let shape = shape.iter().map(|&d| d as usize).collect();
        views.push((name, TensorView::new(*dtype, shape, bytes)?));
    }
    Ok(safetensors::serialize(views, None)?)
}

fn bytes(values: &Tensor) -> Result<Vec<u8>, Error> {
    let mut copy = vec![0.0_f32; values.numel()];
    values.f_copy_data(&mut copy, values.numel())?;
    Ok(copy.iter().flat_map(|value| value.to_le_bytes()).collect())
}

#[cfg(test)]
mod tests;
