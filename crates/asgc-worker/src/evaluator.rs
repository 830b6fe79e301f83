//! The evaluator's loop: pull, measure, report. The server decides when a pull is answered.

use crate::app::Run;
use asgc_client::{Pulled, Session};
use asgc_core::ids::Version;
use asgc_core::server::Evaluation;
use asgc_daemon::exit::BoxError;
use std::time::Instant;

/// Evaluates until the server or a signal says stop; returns why.
pub(crate) fn evaluate(run: &Run, session: &mut Session) -> Result<String, BoxError> {
    tracing::info!("loading data");
    let mut evaluator = run.task.evaluator()?;
    run.health.set_ready();
    tracing::info!("evaluating");
    loop {
        let began = Instant::now();
        let pulled = run.runtime.block_on(async {
            tokio::select! {
                pulled = session.pull() => Some(pulled),
                () = run.shutdown.requested() => None,
            }
        });
        match pulled.transpose()? {
            None => return Ok("asked to stop".into()),
            Some(Pulled::Stop(reason)) => return Ok(reason),
            // An evaluator is not asked for parameters; a server that does is waiting for a trainer.
            Some(Pulled::NeedParameters) => return Err("the server asks an evaluator for parameters".into()),
            Some(Pulled::Fresh | Pulled::Unchanged) => {}
        }
        run.metrics.fetched(began.elapsed().as_secs_f64());
        run.metrics.pulled(session);
        run.metrics.settled(session);
        let began = Instant::now();
        let measured = evaluator.evaluate(session.parameters())?;
        let eval_s = began.elapsed().as_secs_f64();
        let version = session.version().unwrap_or(Version(0));
        tracing::info!(
            version = version.0,
            accuracy = measured.accuracy,
            loss = measured.loss,
            "evaluated"
        );
        let evaluation = Evaluation {
            version,
            accuracy: measured.accuracy,
            loss: measured.loss,
            eval_s,
            buffers: measured.buffers.into(),
        };
        run.runtime.block_on(session.report(&evaluation))?;
        run.metrics.evaluated(eval_s);
    }
}
