//! What this crate offers, as a [`Task`].

use crate::{Batch, EvaluatorSpec, TrainerSpec};
use asgc_core::config::Config;
use asgc_core::ids::WorkerId;
use asgc_core::initial::Recipe;
use asgc_core::layout::Layout;
use asgc_core::task::{BoxError, Computed, Evaluator, Measurement, Task, Trainer};
use std::path::PathBuf;

/// A model and a data set on libtorch.
#[derive(Debug, Clone)]
pub struct Torch {
    config: Config,
}

impl Torch {
    /// What `config` says is trained.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
        }
    }

    /// What worker `worker` computes.
    #[must_use]
    pub fn trainer_spec(&self, worker: WorkerId) -> TrainerSpec {
        let Config {
            run,
            workload,
            worker: machine,
            ..
        } = &self.config;
        TrainerSpec {
            dataset: workload.dataset,
            data_root: PathBuf::from(&run.data_root),
            model: workload.model,
            batch_size: workload.batch_size,
            seed: run.seed,
            worker,
            num_workers: workload.num_workers,
            device: run.device.clone(),
            threads: machine.threads,
        }
    }
}

impl Task for Torch {
    fn layout(&self) -> Result<Layout, BoxError> {
        Ok(crate::layout(self.config.workload.model)?)
    }

    fn initial_parameters(&self) -> Result<Vec<f32>, BoxError> {
        Ok(crate::initial_parameters(
            self.config.workload.model,
            self.config.run.seed,
        )?)
    }

    fn recipe(&self) -> Option<Recipe> {
        crate::recipe(self.config.workload.model).ok()
    }

    fn trainer(&self, worker: WorkerId) -> Result<Box<dyn Trainer>, BoxError> {
        let trainer = crate::Trainer::new(&self.trainer_spec(worker))?;
        Ok(Box::new(TorchTrainer { trainer, batch: None }))
    }

    fn evaluator(&self) -> Result<Box<dyn Evaluator>, BoxError> {
        let Config {
            run,
            workload,
            worker,
            ..
        } = &self.config;
        let evaluator = crate::Evaluator::new(&EvaluatorSpec {
            dataset: workload.dataset,
            data_root: PathBuf::from(&run.data_root),
            model: workload.model,
            batch_size: workload.batch_size,
            eval_batch_size: worker.eval_batch_size,
            recalibration_batches: worker.recalibration_batches,
            seed: run.seed,
            num_workers: workload.num_workers,
            device: run.device.clone(),
            threads: worker.threads,
        })?;
        Ok(Box::new(TorchEvaluator(evaluator)))
    }
}

struct TorchTrainer {
    trainer: crate::Trainer,
    batch: Option<Batch>,
}

impl Trainer for TorchTrainer {
    fn set_parameters(&mut self, parameters: &[f32]) -> Result<(), BoxError> {
        Ok(self.trainer.set_parameters(parameters)?)
    }

    fn next_batch(&mut self) -> Result<(), BoxError> {
        self.batch = Some(self.trainer.next_batch()?);
        Ok(())
    }

    fn gradient(&mut self, gradient: &mut [f32]) -> Result<Computed, BoxError> {
        let batch = self.batch.take().ok_or("a gradient needs a batch")?;
        let step = self.trainer.gradient(&batch, gradient)?;
        Ok(Computed {
            loss: f64::from(step.loss),
            samples: step.samples,
        })
    }
}

struct TorchEvaluator(crate::Evaluator);

impl Evaluator for TorchEvaluator {
    fn evaluate(&mut self, parameters: &[f32]) -> Result<Measurement, BoxError> {
        let found = self.0.evaluate(parameters)?;
        Ok(Measurement {
            accuracy: found.accuracy,
            loss: found.loss,
            buffers: found.buffers,
        })
    }
}
