//! The command line of operators and researchers.

mod bench;
mod calibrate;
mod cluster;
mod controls;
mod explain;
mod findings;
mod local;
mod matrix;
mod output;
mod plan;
mod programs;
mod replay;
mod report;
mod run;
mod summary;
mod tail;

use asgc_daemon::config::ConfigError;
use asgc_daemon::exit::{FAILURE, USAGE, chain};
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Run and compare asynchronous distributed training
///
/// asgc starts a parameter server and its workers on this machine, shows how training goes, and tells the
/// figures of finished runs from their event logs.
#[derive(Debug, Parser)]
#[command(name = "asgc", version, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 ended properly, 1 did not, 64 wrong flags or configuration, \
                          130 or 143 cut short by a second Ctrl-C or SIGTERM.";

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Local(local::Args),
    Matrix(matrix::Args),
    Summary(summary::Args),
    Report(report::Args),
    Calibrate(calibrate::Args),
    Findings(findings::Args),
    Replay(replay::Args),
    Explain(explain::Args),
    Plan(plan::Args),
    Controls(controls::Args),
    #[command(subcommand)]
    Bench(bench::Command),
}

/// Messages of 1 MiB come and go many times a second: the system's allocator would map and fault each of them anew.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match asgc_daemon::parse::<Cli>() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let result = match cli.command {
        Command::Run(args) => run::main(&args),
        Command::Local(args) => local::main(&args),
        Command::Matrix(args) => matrix::main(&args),
        Command::Summary(args) => summary::main(&args),
        Command::Report(args) => report::main(&args),
        Command::Calibrate(args) => calibrate::main(&args),
        Command::Findings(args) => findings::main(&args),
        Command::Replay(args) => replay::main(&args),
        Command::Explain(args) => explain::main(&args),
        Command::Plan(args) => plan::main(&args),
        Command::Controls(args) => controls::main(&args),
        Command::Bench(command) => bench::main(&command),
    };
    result.unwrap_or_else(|error| {
        let usage = error.is::<ConfigError>();
        output::note(&chain(error.as_ref()));
        ExitCode::from(if usage { USAGE } else { FAILURE })
    })
}
