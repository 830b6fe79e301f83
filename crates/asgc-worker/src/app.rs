//! Joining a run, and choosing the role's loop.

use crate::metrics::Metrics;
use crate::{evaluator, trainer};
use asgc_client::{Error, Options, Session, Throttle, fetch_settings};
use asgc_core::config::{Config, Role, validate};
use asgc_core::ids::WorkerId;
use asgc_core::task::Task;
use asgc_core::worker::Settings;
use asgc_daemon::Daemon;
use asgc_daemon::config::{from_settings_json, overlay};
use asgc_daemon::exit::BoxError;
use asgc_daemon::host_name;
use asgc_daemon::metrics::Health;
use asgc_daemon::shutdown::Shutdown;
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::Handle;

/// What the loops share.
pub(crate) struct Run {
    pub(crate) config: Config,
    pub(crate) task: Box<dyn Task>,
    pub(crate) metrics: Metrics,
    pub(crate) health: Health,
    pub(crate) shutdown: Shutdown,
    pub(crate) runtime: Handle,
}

/// Takes part in a run until it is over or a signal came. `task` makes what is trained from the run's
/// settings.
pub async fn run<T>(daemon: Daemon, task: T) -> Result<ExitCode, BoxError>
where
    T: FnOnce(&Config) -> Result<Box<dyn Task>, BoxError> + Send + 'static,
{
    let worker = &daemon.config.worker;
    let give_up_after = Duration::from_secs_f64(worker.give_up_after_s);
    let settings = tokio::select! {
        settings = fetch_settings(&worker.server, give_up_after) => settings?,
        () = daemon.shutdown.requested() => return Ok(ExitCode::SUCCESS),
    };
    let config = overlay(from_settings_json(&settings)?, &daemon.config);
    // The run's settings and this machine's are sound by themselves, but may not go together.
    if let Some(invalid) = validate(&config).first() {
        return Err(invalid.to_string().into());
    }
    let run = Run {
        task: task(&config)?,
        config,
        metrics: Metrics::new(&daemon.registry)?,
        health: daemon.health,
        shutdown: daemon.shutdown,
        runtime: Handle::current(),
    };
    // Tensors stay on the thread that made them, and computing must not hold up the connection.
    let (sender, ended) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("compute".into())
        .spawn(move || {
            // The receiver only goes away with the process.
            let _ = sender.send(take_part(&run));
        })?;
    ended
        .await
        .map_err(|_| BoxError::from("the computing thread panicked; its message is above"))??;
    Ok(ExitCode::SUCCESS)
}

/// Joins, runs the role's loop and leaves.
fn take_part(run: &Run) -> Result<(), BoxError> {
    let layout = run.task.layout()?;
    let settings = Settings::new(&run.config)?;
    let joining = Session::join(options(run), layout, settings);
    let joined = run.runtime.block_on(async {
        tokio::select! {
            joined = joining => Some(joined),
            () = run.shutdown.requested() => None,
        }
    });
    let mut session = match joined {
        None => return Ok(()),
        Some(Err(Error::Over)) => {
            tracing::info!("the run is over already");
            return Ok(());
        }
        Some(joined) => joined?,
    };
    let outcome = match run.config.worker.role {
        Role::Trainer => trainer::train(run, &mut session),
        Role::Evaluator => evaluator::evaluate(run, &mut session),
    };
    let (reason, outcome) = match outcome {
        Ok(reason) => (reason, Ok(())),
        Err(error) => (error.to_string(), Err(error)),
    };
    tracing::info!(reason, "leaving");
    run.runtime.block_on(session.leave(&reason));
    outcome
}

fn options(run: &Run) -> Options {
    let config = &run.config;
    let heterogeneity = &config.heterogeneity;
    Options {
        server: config.worker.server.clone(),
        role: config.worker.role,
        wanted: config.worker.id.map(WorkerId),
        name: name(),
        give_up_after: Duration::from_secs_f64(config.worker.give_up_after_s),
        throttle: Throttle::new(heterogeneity.comm_delay_ms, heterogeneity.bandwidth_mbps),
        initial: run.task.recipe().map(|recipe| (recipe, config.run.seed)),
    }
}

/// Host and process, for people.
fn name() -> String {
    format!("{}:{}", host_name(), std::process::id())
}
