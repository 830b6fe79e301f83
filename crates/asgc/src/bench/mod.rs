//! `asgc bench`: how fast this machine trains, and how strategies compare on a thin link.

mod compute;
mod link;
mod train;

pub(crate) use link::rate::Rate;

use anyhow::Result;
use std::process::ExitCode;

/// Measure how fast this machine trains, and how strategies compare on a thin link
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Train(train::Args),
    Link(link::Args),
    /// What `link` runs within a worker's namespace, to measure what the link carries.
    #[command(hide = true)]
    LinkProbe(link::probe::Args),
}

pub(crate) fn main(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Train(args) => train::main(args),
        Command::Link(args) => link::main(args),
        Command::LinkProbe(args) => link::probe::main(args),
    }
}
