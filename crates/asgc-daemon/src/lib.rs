//! What both daemons share: configuration, tracing, metrics endpoint, signals.
//!
//! | module | what it gives |
//! |---|---|
//! | [`config`] | the one schema, from files, environment and flags |
//! | [`telemetry`] | log lines |
//! | [`metrics`] | a registry, and `/metrics`, `/healthz`, `/readyz` |
//! | [`shutdown`] | signals, and the handle that tells everything to drain |
//! | [`event_log`] | the writer of `events.jsonl` |
//! | [`endpoints`] | the file that tells a server's addresses |
//! | [`exit`] | exit codes, and the body of a daemon's `main` |

pub mod config;
pub mod endpoints;
pub mod event_log;
pub mod exit;
pub mod metrics;
pub mod shutdown;
pub mod telemetry;

pub use exit::{Daemon, Program, parse, run_main};

/// The machine's name, or `localhost` where it has none that is text.
#[must_use]
pub fn host_name() -> String {
    let name = nix::unistd::gethostname().ok();
    name.and_then(|name| name.into_string().ok())
        .unwrap_or_else(|| "localhost".to_owned())
}
