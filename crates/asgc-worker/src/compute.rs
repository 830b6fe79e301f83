//! One gradient, or the sum of several local steps, with the injected delay.

use crate::app::Run;
use asgc_client::Error;
use asgc_core::ids::{Version, WorkerId};
use asgc_core::local_steps::LocalSteps;
use asgc_core::push::Measured;
use asgc_core::task::{BoxError, Computed, Trainer};
use std::time::{Duration, Instant};

/// Gradients in a row that may be unfit before the worker says that it cannot go on: by then the parameters
/// themselves have diverged.
const MAX_UNFIT: u32 = 100;

/// What computes.
pub(crate) struct Computing {
    trainer: Box<dyn Trainer>,
    local: LocalSteps,
    /// Injected, for all steps of a push.
    delay: Duration,
}

impl Computing {
    pub(crate) fn new(run: &Run, worker: WorkerId) -> Result<Self, BoxError> {
        let local = LocalSteps::new(&run.config);
        let delay = run.config.heterogeneity.compute_delay.get(&worker.0);
        let delay_s = delay.copied().unwrap_or(0.0) * f64::from(local.count());
        Ok(Self {
            trainer: run.task.trainer(worker)?,
            local,
            delay: Duration::try_from_secs_f64(delay_s)?,
        })
    }

    /// Takes parameters.
    pub(crate) fn begin(&mut self, parameters: &[f32], base: Version) -> Result<(), BoxError> {
        self.local.begin(self.trainer.as_mut(), parameters, base)
    }

    /// The injected delay and the gradient of what was taken; `None` when asked to stop meanwhile. Loss, samples and
    /// the time that it took are filled in.
    pub(crate) fn finish(&mut self, run: &Run, gradient: &mut [f32]) -> Result<Option<Measured>, BoxError> {
        self.trainer.next_batch()?;
        let began = Instant::now();
        if !self.delay.is_zero() && asked_to_stop_within(run, self.delay) {
            return Ok(None);
        }
        let Computed { loss, samples } = self.local.finish(self.trainer.as_mut(), gradient)?;
        Ok(Some(Measured {
            compute_s: began.elapsed().as_secs_f64(),
            loss,
            samples,
            pipeline_depth: run.config.worker.pipeline_depth,
            ..Measured::default()
        }))
    }
}

fn asked_to_stop_within(run: &Run, delay: Duration) -> bool {
    let stopped = async { tokio::time::timeout(delay, run.shutdown.requested()).await };
    run.runtime.block_on(stopped).is_ok()
}

/// Gradients in a row that could not be sent.
#[derive(Debug, Default)]
pub(crate) struct Unfit(u32);

impl Unfit {
    /// A gradient was given to the session, which took it or not. True when it was unfit.
    pub(crate) fn judge<T>(&mut self, submitted: Result<T, Error>) -> Result<bool, BoxError> {
        match submitted {
            Ok(_) => {
                self.0 = 0;
                Ok(false)
            }
            Err(Error::Unfit(error)) => {
                self.0 += 1;
                tracing::warn!(%error, "unfit gradient; taking the next batch");
                if self.0 < MAX_UNFIT {
                    return Ok(true);
                }
                let count = self.0;
                Err(format!(
                    "{count} gradients in a row were unfit: the model has diverged; lower workload.lr"
                )
                .into())
            }
            Err(error) => Err(error.into()),
        }
    }
}
