//! The trainer's loop: pull, compute, push.

use crate::app::Run;
use asgc_client::{Error, Pulled, Session};
use asgc_core::ids::WorkerId;
use asgc_core::push::Measured;
use asgc_core::task::{Computed, Trainer};
use asgc_daemon::exit::BoxError;
use std::time::{Duration, Instant};

/// Gradients in a row that may be unfit before the worker says that it cannot go on: by then the parameters
/// themselves have diverged.
const MAX_UNFIT: u32 = 100;

/// Trains until the server or a signal says stop; returns why.
pub(crate) fn train(run: &Run, session: &mut Session) -> Result<String, BoxError> {
    let worker = session.worker_id().unwrap_or(WorkerId(0));
    tracing::info!(worker = worker.0, "loading data");
    let mut trainer = run.task.trainer(worker)?;
    let delay = run
        .config
        .heterogeneity
        .compute_delay
        .get(&worker.0)
        .copied()
        .unwrap_or(0.0);
    let mut gradient = vec![0.0; session.layout().parameters()];
    let mut unfit = 0;
    run.health.set_ready();
    tracing::info!(worker = worker.0, "training");
    loop {
        let fetch_s = match pull(run, session)? {
            Ok(fetch_s) => fetch_s,
            Err(stopped) => return Ok(stopped),
        };
        trainer.set_parameters(session.parameters())?;
        trainer.next_batch()?;
        let Some((computed, compute_s)) = compute(run, trainer.as_mut(), delay, &mut gradient)? else {
            return Ok("asked to stop".into());
        };
        let Computed { loss, samples } = computed;
        let measured = Measured {
            fetch_s,
            compute_s,
            loss,
            samples,
            ..Measured::default()
        };
        match run.runtime.block_on(session.push(&gradient, measured)) {
            Ok(_) => unfit = 0,
            Err(Error::Unfit(error)) => {
                unfit += 1;
                run.metrics.unfit();
                tracing::warn!(%error, "unfit gradient; taking the next batch");
                if unfit >= MAX_UNFIT {
                    return Err(format!(
                        "{unfit} gradients in a row were unfit: the model has diverged; lower workload.lr"
                    )
                    .into());
                }
            }
            Err(error) => return Err(error.into()),
        }
        run.metrics.step(&measured, session);
    }
}

/// Waits for parameters: the seconds it took, or why to stop.
fn pull(run: &Run, session: &mut Session) -> Result<Result<f64, String>, BoxError> {
    let began = Instant::now();
    loop {
        let pulled = run.runtime.block_on(async {
            tokio::select! {
                pulled = session.pull() => Some(pulled),
                () = run.shutdown.requested() => None,
            }
        });
        match pulled.transpose()? {
            None => return Ok(Err("asked to stop".into())),
            Some(Pulled::Stop(reason)) => return Ok(Err(reason)),
            Some(Pulled::NeedParameters) => {
                tracing::info!(seed = run.config.run.seed, "sending initial parameters");
                let initial = run.task.initial_parameters()?;
                run.runtime.block_on(session.initialise(initial))?;
            }
            Some(Pulled::Fresh | Pulled::Unchanged) => {
                let fetch_s = began.elapsed().as_secs_f64();
                run.metrics.pulled(fetch_s, session);
                return Ok(Ok(fetch_s));
            }
        }
    }
}

/// The injected delay and the gradient; `None` when asked to stop meanwhile.
fn compute(
    run: &Run,
    trainer: &mut dyn Trainer,
    delay_s: f64,
    gradient: &mut [f32],
) -> Result<Option<(Computed, f64)>, BoxError> {
    let began = Instant::now();
    if delay_s > 0.0 {
        let stopped = run.runtime.block_on(async {
            let delay = Duration::from_secs_f64(delay_s);
            tokio::time::timeout(delay, run.shutdown.requested())
                .await
                .is_ok()
        });
        if stopped {
            return Ok(None);
        }
    }
    let computed = trainer.gradient(gradient)?;
    Ok(Some((computed, began.elapsed().as_secs_f64())))
}
