//! The worker as a daemon.

mod bench;

use asgc_core::config::Config;
use asgc_core::task::Task;
use asgc_daemon::config::ConfigArgs;
use asgc_daemon::exit::BoxError;
use asgc_daemon::{Program, parse, run_main};
use asgc_nn::Torch;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// A worker of asgc: computes gradients, or evaluates, for a parameter server.
///
/// It needs the server's address and nothing else: the run's settings come from there. What is its own is
/// where data lie (run.data_root), the device (run.device) and the sections worker and telemetry.
///
/// SIGTERM or SIGINT: finishes the step, leaves the run. Exit codes: 0 the run is over or it was asked to
/// leave, 1 it could not start or go on, 64 wrong flags or configuration.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Args {
    #[command(flatten)]
    config: ConfigArgs,

    /// The server's address, http://HOST:PORT, as worker.server.
    #[arg(long, value_name = "URL")]
    server: Option<String>,

    /// trainer or evaluator, as worker.role.
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,

    /// The identity to ask for, as worker.id: which share of the data it reads.
    #[arg(long, value_name = "N")]
    id: Option<u32>,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compute gradients without a server and print the rate, as JSON: what communication is measured against.
    BenchCompute {
        #[command(flatten)]
        config: ConfigArgs,

        /// Whose share of the data to take the batch from, as worker.id.
        #[arg(long, value_name = "N")]
        id: Option<u32>,

        /// How long to compute.
        #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
        seconds: f64,
    },
}

/// Messages of 1 MiB come and go many times a second: the system's allocator would map and fault each of them anew.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = match parse::<Args>() {
        Ok(args) => args,
        Err(code) => return code,
    };
    let program = Program {
        name: "asgc-worker",
        version: env!("CARGO_PKG_VERSION"),
    };
    let id = |id: Option<u32>| id.map(|id| ("worker.id", id.to_string()));
    if let Some(Command::BenchCompute {
        config,
        id: whose,
        seconds,
    }) = args.command
    {
        let overrides = id(whose);
        return run_main(program, &config, overrides.as_slice(), move |daemon| {
            bench::compute(daemon, seconds)
        });
    }
    let server = args.server.map(|server| ("worker.server", server));
    let role = args.role.map(|role| ("worker.role", role));
    let overrides: Vec<_> = server.into_iter().chain(role).chain(id(args.id)).collect();
    run_main(program, &args.config, &overrides, |daemon| {
        asgc_worker::run(daemon, task)
    })
}

fn task(config: &Config) -> Result<Box<dyn Task>, BoxError> {
    Ok(Box::new(Torch::new(config)))
}
