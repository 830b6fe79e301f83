//! Exit codes, and the body that the daemons' `main` share.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | ended as asked, also after a drain |
//! | 1 | could not start, or did not end properly |
//! | 64 | wrong flags or configuration (`EX_USAGE`) |
//! | 130, 143 | a second SIGINT or SIGTERM cut the drain short |

use crate::config::{ConfigArgs, load_from};
use crate::metrics::{Endpoint, Health, Registry};
use crate::shutdown::{Shutdown, Signals};
use crate::telemetry;
use asgc_core::config::Config;
use std::error::Error;
use std::future::Future;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

/// `EX_USAGE` of sysexits.h: wrong flags or configuration.
pub const USAGE: u8 = 64;
/// A failed start, or an end that was not proper.
pub const FAILURE: u8 = 1;

/// Time that scrapes under way get when the daemon has ended.
const ENDPOINT_GRACE: Duration = Duration::from_secs(1);

/// What a daemon may fail with.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Which program this is.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// Such as `asgc-server`.
    pub name: &'static str,
    /// Of the crate.
    pub version: &'static str,
}

/// What [`run_main`] has set up for a daemon.
#[derive(Debug)]
pub struct Daemon {
    /// The effective settings, checked.
    pub config: Config,
    /// Where components register their metrics.
    pub registry: Registry,
    /// What `/readyz` says; starts as not ready.
    pub health: Health,
    /// Asked for at the first signal.
    pub shutdown: Shutdown,
    /// Where `/metrics` is served, if it is.
    pub metrics_addr: Option<SocketAddr>,
}

/// Reads the command line. Help and version end with 0, wrong flags with [`USAGE`] and not with clap's 2.
///
/// # Errors
/// The code to exit with, when the program should not go on.
pub fn parse<A: clap::Parser>() -> Result<A, ExitCode> {
    A::try_parse().map_err(|error| {
        let code = if error.use_stderr() { USAGE } else { 0 };
        // A closed pipe is no reason to fail over help.
        let _ = error.print();
        ExitCode::from(code)
    })
}

/// The body of a daemon's `main`: loads the configuration, sets up log, signals and metrics endpoint, runs
/// `daemon` and turns what it returns into an exit code. `overrides` are as in [`crate::config::load`].
pub fn run_main<F, R>(
    program: Program,
    args: &ConfigArgs,
    overrides: &[(&str, String)],
    daemon: F,
) -> ExitCode
where
    F: FnOnce(Daemon) -> R,
    R: Future<Output = Result<ExitCode, BoxError>> + Send + 'static,
{
    let loaded = match load_from(args, overrides, std::env::vars_os()) {
        Ok(loaded) => loaded,
        Err(error) => return fail(program, USAGE, &error),
    };
    if args.print_config {
        return match loaded.to_toml() {
            Ok(text) => print(&text),
            Err(error) => fail(program, FAILURE, &error),
        };
    }
    if let Err(error) = telemetry::init(&loaded.config.telemetry) {
        return fail(program, USAGE, &error);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(program, FAILURE, &error),
    };
    let code = runtime
        .block_on(supervise(program, loaded.config, daemon))
        .unwrap_or_else(|error| {
            tracing::error!("{}", chain(error.as_ref()));
            ExitCode::from(FAILURE)
        });
    // What still blocks in a thread must not hold up the exit.
    runtime.shutdown_background();
    code
}

async fn supervise<F, R>(program: Program, config: Config, daemon: F) -> Result<ExitCode, BoxError>
where
    F: FnOnce(Daemon) -> R,
    R: Future<Output = Result<ExitCode, BoxError>> + Send + 'static,
{
    let signals = Signals::install()?;
    let shutdown = Shutdown::new();
    let registry = Registry::new(program)?;
    let health = Health::new();
    let endpoint = match &config.telemetry.metrics_listen {
        Some(listen) => Some(Endpoint::bind(listen, registry.clone(), health.clone()).await?),
        None => None,
    };
    let metrics_addr = endpoint.as_ref().map(Endpoint::local_addr);
    if let Some(addr) = metrics_addr {
        tracing::info!("metrics at http://{addr}/metrics");
    }
    // The endpoint outlives the drain, so that the drain can be watched.
    let ended = Shutdown::new();
    let serving = endpoint.map(|endpoint| tokio::spawn(endpoint.run(ended.clone())));
    let parts = Daemon {
        config,
        registry,
        health: health.clone(),
        shutdown: shutdown.clone(),
        metrics_addr,
    };
    // On a task of its own: a daemon that blocks its thread must not keep the second signal from being seen.
    let running = tokio::spawn(daemon(parts));
    let draining = shutdown.clone();
    tokio::spawn(async move {
        draining.requested().await;
        health.drain();
    });
    let code = tokio::select! {
        result = running => result??,
        code = signals.watch(shutdown) => return Ok(ExitCode::from(code)),
    };
    ended.request();
    if let Some(serving) = serving {
        let _ = tokio::time::timeout(ENDPOINT_GRACE, serving).await;
    }
    Ok(code)
}

/// `error` and its causes, in one line.
#[must_use]
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    let mut words: Vec<String> = causes.map(ToString::to_string).collect();
    // Many errors repeat their cause in their own text.
    words.dedup_by(|cause, error| error.ends_with(cause.as_str()));
    words.join(": ")
}

fn fail(program: Program, code: u8, error: &dyn Error) -> ExitCode {
    let text = error.to_string();
    let mut stderr = std::io::stderr().lock();
    for line in text.lines() {
        let _ = writeln!(stderr, "{}: {line}", program.name);
    }
    ExitCode::from(code)
}

fn print(text: &str) -> ExitCode {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(FAILURE),
    }
}

#[cfg(test)]
#[path = "exit_tests.rs"]
mod tests;
