//! Experiment files of the reference system: what its users wrote runs here unchanged, and says the same.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod values;
mod yaml;

use asgc_core::config::Config;
use asgc_daemon::config::{ConfigArgs, ConfigError, load_from};
use std::path::{Path, PathBuf};

/// The configuration of `path`, with nothing of this machine's environment in it.
fn try_load(path: PathBuf) -> Result<Config, ConfigError> {
    let args = ConfigArgs {
        config: vec![path],
        ..ConfigArgs::default()
    };
    load_from(&args, &[], std::iter::empty()).map(|loaded| loaded.config)
}

fn load(path: PathBuf) -> Config {
    try_load(path).unwrap_or_else(|error| panic!("{error}"))
}

/// A file of the repository's `configs/`.
fn ours(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../configs")
        .join(name)
}

/// A file as the reference's users have it.
fn theirs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/reference")
        .join(name)
}
