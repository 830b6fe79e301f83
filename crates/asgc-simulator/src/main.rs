//! One run on virtual time, logged like a real one.

mod run;
mod task;

use asgc_daemon::config::ConfigArgs;
use asgc_daemon::{Program, parse, run_main};
use clap::Parser;
use std::process::ExitCode;

/// Simulates a run of asgc: server, workers and links in one process, on virtual time.
///
/// The same configuration gives the same <run.results_dir>/<run.name>/events.jsonl, byte for byte. Machines and links
/// are what the section simulation says. `asgc run FILE` starts this program and shows how the run goes.
///
/// SIGTERM or SIGINT: the run drains. Exit codes: 0 the run ended and its log is whole, 1 it could not begin or go on,
/// 64 wrong flags or configuration.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    config: ConfigArgs,
}

fn main() -> ExitCode {
    let args = match parse::<Args>() {
        Ok(args) => args,
        Err(code) => return code,
    };
    let program = Program {
        name: "asgc-simulator",
        version: env!("CARGO_PKG_VERSION"),
    };
    run_main(program, &args.config, &[], run::run)
}
