//! The parameter server as a daemon.

use asgc_daemon::config::ConfigArgs;
use asgc_daemon::{Program, parse, run_main};
use clap::Parser;
use std::process::ExitCode;

/// The parameter server of asgc: owns the model and its version, decides on every push.
///
/// Workers need this server's address and nothing else: all settings of the run come from here. The server
/// prints the line to start one with. It needs no libtorch.
///
/// SIGTERM or SIGINT drains: workers are stopped, the final version is evaluated, log and model are written.
/// Exit codes: 0 ended or drained, 1 could not start or lost events, 64 wrong flags or configuration.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    config: ConfigArgs,

    /// Address for workers, as server.listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
}

/// Messages of 1 MiB come and go many times a second: the system's allocator would map and fault each of them anew.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = match parse::<Args>() {
        Ok(args) => args,
        Err(code) => return code,
    };
    let overrides = args.listen.map(|listen| ("server.listen", listen));
    let program = Program {
        name: "asgc-server",
        version: env!("CARGO_PKG_VERSION"),
    };
    run_main(program, &args.config, overrides.as_slice(), asgc_server::app::run)
}
