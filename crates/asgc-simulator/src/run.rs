//! The run: its log, its threads, its end.

use crate::task::task;
use asgc_core::config::{Config, StepTime};
use asgc_core::event::Event;
use asgc_core::task::BoxError;
use asgc_daemon::Daemon;
use asgc_daemon::event_log::EventLog;
use asgc_daemon::shutdown::Shutdown;
use asgc_lab::simulate::{self, Observer, simulate};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// How long the disk may take for the last events.
const CLOSE_WITHIN: Duration = Duration::from_secs(60);

pub(crate) async fn run(daemon: Daemon) -> Result<ExitCode, BoxError> {
    let Daemon {
        config,
        shutdown,
        health,
        ..
    } = daemon;
    health.set_ready();
    tokio::task::spawn_blocking(move || run_blocking(config, shutdown)).await??;
    Ok(ExitCode::SUCCESS)
}

fn run_blocking(mut config: Config, shutdown: Shutdown) -> Result<(), BoxError> {
    let folder = Path::new(&config.run.results_dir).join(&config.run.name);
    let log = EventLog::open(&folder, config.telemetry.events_max_bytes)?;
    let task = task(&config)?;
    let simulation = &mut config.simulation;
    if simulation.step == StepTime::Measured && simulation.step_s == 0.0 {
        simulation.step_s = simulate::step_s(task.as_ref())?;
        tracing::info!(
            step_s = simulation.step_s,
            "measured a step; the log has it in run_start"
        );
    }
    let threads = threads(&config)?;
    tracing::info!(threads, workers = config.workload.num_workers, "simulating");
    let mut logging = Logging { log, shutdown };
    simulate(&config, task.as_ref(), threads, &mut logging)?;
    let report = logging.log.close(CLOSE_WITHIN);
    if report.lost > 0 {
        return Err(format!(
            "{} events could not be written: the log is not whole",
            report.lost
        )
        .into());
    }
    Ok(())
}

/// An objective's gradient is done before another thread would have woken up.
fn threads(config: &Config) -> std::io::Result<usize> {
    match config.simulation.threads {
        0 if config.workload.model.is_synthetic() => Ok(1),
        0 => std::thread::available_parallelism().map(usize::from),
        threads => Ok(threads),
    }
}

struct Logging {
    log: EventLog,
    shutdown: Shutdown,
}

impl Observer for Logging {
    fn event(&mut self, event: Event) -> Result<(), BoxError> {
        match &event {
            Event::Eval(eval) => tracing::info!(
                version = eval.version.0,
                accuracy = eval.test_accuracy,
                loss = eval.test_loss,
                elapsed_s = eval.elapsed_s,
                "evaluated"
            ),
            Event::RunEnd(end) => tracing::info!(
                applied = end.applied_updates,
                rejected = end.rejected_updates,
                updates_per_s = end.updates_per_sec,
                reason = end.reason,
                "the run is over"
            ),
            _ => {}
        }
        Ok(self.log.write_waiting(event)?)
    }

    fn asked_to_stop(&self) -> bool {
        self.shutdown.is_requested()
    }
}
