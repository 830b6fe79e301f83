//! Log lines on standard error, for people or as JSON.

use asgc_core::config::{LogFormat, Telemetry};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// The log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// `telemetry.log` names no level or target.
    #[error("telemetry.log: {0}")]
    Directives(String),
    /// Something else in this process had set up a log.
    #[error("the log is already set up: {0}")]
    Taken(String),
}

/// Sends this process's log to standard error, in colour only on a terminal (and without `NO_COLOR`).
///
/// # Errors
/// When the directives are wrong or the process has a log already.
pub fn init(settings: &Telemetry) -> Result<(), InitError> {
    check_directives(&settings.log).map_err(InitError::Directives)?;
    let filter =
        EnvFilter::try_new(&settings.log).map_err(|error| InitError::Directives(error.to_string()))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let result = match settings.log_format {
        LogFormat::Human => {
            let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            builder.with_ansi(colour).try_init()
        }
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    result.map_err(|error| InitError::Taken(error.to_string()))
}

/// Whether `directives` are levels or `target=level`.
///
/// A bare word that is no level would be read as a target's name, and silence everything else.
pub(crate) fn check_directives(directives: &str) -> Result<(), String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    for part in directives
        .split(',')
        .map(str::trim)
        .filter(|part| !part.contains(['=', '[']))
    {
        if !LEVELS.contains(&part.to_ascii_lowercase().as_str()) {
            return Err(format!("{part:?} is no level; levels are {}", LEVELS.join(", ")));
        }
    }
    EnvFilter::try_new(directives)
        .map(drop)
        .map_err(|error| error.to_string())
}
