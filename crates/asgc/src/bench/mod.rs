//! `asgc bench`: how fast this machine trains, how near the parts come to what it can carry, and how strategies compare
//! on a thin link.

mod cluster;
mod codec;
mod coding;
mod compute;
mod daemon;
mod link;
mod peer;
mod process;
mod roofline;
mod stats;
mod synthetic;
mod table;
mod train;
mod wire;

pub(crate) use link::rate::Rate;

use anyhow::Result;
use std::process::ExitCode;

/// Measure training, codecs, the wire and a whole cluster beside what this machine can carry
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Train(train::Args),
    Link(link::Args),
    Codec(codec::Args),
    Wire(wire::Args),
    Cluster(cluster::Args),
    /// What `link` runs within a worker's namespace, to measure what the link carries.
    #[command(hide = true)]
    LinkProbe(link::probe::Args),
    /// What `wire` runs as its client.
    #[command(hide = true)]
    WireClient(wire::client::Args),
    /// What `cluster` runs as its clients.
    #[command(hide = true)]
    ClusterClient(cluster::client::Args),
}

pub(crate) fn main(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Train(args) => train::main(args),
        Command::Link(args) => link::main(args),
        Command::Codec(args) => codec::main(args),
        Command::Wire(args) => wire::main(args),
        Command::Cluster(args) => cluster::main(args),
        Command::LinkProbe(args) => link::probe::main(args),
        Command::WireClient(args) => wire::client::main(args),
        Command::ClusterClient(args) => cluster::client::main(args),
    }
}
