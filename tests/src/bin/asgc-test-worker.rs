//! The worker daemon without libtorch: what it trains is arithmetic.

use asgc_core::task::Task;
use asgc_daemon::config::ConfigArgs;
use asgc_daemon::{Program, parse, run_main};
use asgc_tests::Quadratic;
use clap::Parser;
use std::process::ExitCode;

/// A worker for tests.
#[derive(Debug, Parser)]
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
        name: "asgc-test-worker",
        version: env!("CARGO_PKG_VERSION"),
    };
    run_main(program, &args.config, &[], |daemon| {
        asgc_worker::run(daemon, |config| {
            // The batch size means nothing here, so it carries the size of the model.
            let task = Quadratic {
                seed: config.run.seed,
                rows: config.workload.batch_size,
            };
            Ok(Box::new(task) as Box<dyn Task>)
        })
    })
}
