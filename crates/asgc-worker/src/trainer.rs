//! The trainer's loop: pull, compute, push, by turns. With a pipeline it is [`crate::pipeline`]'s.

use crate::app::Run;
use crate::compute::{Computing, Unfit};
use crate::pipeline;
use asgc_client::{Pulled, Session};
use asgc_core::ids::{Version, WorkerId};
use asgc_core::push::Measured;
use asgc_daemon::exit::BoxError;
use std::time::Instant;

/// Trains until the server or a signal says stop; returns why.
pub(crate) fn train(run: &Run, session: &mut Session) -> Result<String, BoxError> {
    let worker = session.worker_id().unwrap_or(WorkerId(0));
    tracing::info!(worker = worker.0, "loading data");
    let computing = Computing::new(run, worker)?;
    run.health.set_ready();
    let depth = run.config.worker.pipeline_depth;
    tracing::info!(worker = worker.0, depth, "training");
    if depth > 1 {
        pipeline::train(run, session, computing)
    } else {
        by_turns(run, session, computing)
    }
}

fn by_turns(run: &Run, session: &mut Session, mut computing: Computing) -> Result<String, BoxError> {
    let mut gradient = vec![0.0; session.layout().parameters()];
    let mut unfit = Unfit::default();
    loop {
        let fetch_s = match pull(run, session)? {
            Ok(fetch_s) => fetch_s,
            Err(stopped) => return Ok(stopped),
        };
        let base = session.version().unwrap_or(Version(0));
        computing.begin(session.parameters(), base)?;
        let Some(computed) = computing.finish(run, &mut gradient)? else {
            return Ok("asked to stop".into());
        };
        let measured = Measured { fetch_s, ..computed };
        let pushed = run.runtime.block_on(session.push(&mut gradient, measured));
        if unfit.judge(pushed)? {
            run.metrics.unfit();
        }
        run.metrics.step(&measured, session);
        run.metrics.settled(session);
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
                run.metrics.fetched(fetch_s);
                run.metrics.pulled(session);
                run.metrics.settled(session);
                return Ok(Ok(fetch_s));
            }
        }
    }
}
