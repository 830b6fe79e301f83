//! `asgc controls`: what is in force in a running server, and changes by hand.

mod show;

use crate::output;
use anyhow::{Context, Result, bail};
use asgc_client::Admin;
use asgc_core::codec::Codec;
use asgc_core::event::{Operator, Override};
use asgc_core::ids::{Bits, Density, WorkerId};
use asgc_daemon::endpoints::Endpoints;
use asgc_daemon::host_name;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show or change what workers compress with and how stale a push may be
///
/// Asks a running server, on its own machine: what each worker compresses with, whether that pays on its link, and
/// the last decisions with what they were based on.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    server: Server,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Args)]
struct Server {
    /// The server's address
    #[arg(
        long,
        global = true,
        value_name = "URL",
        default_value = "http://127.0.0.1:7070"
    )]
    server: String,
    /// The folder of a run that was started by asgc local, instead of an address
    #[arg(long, global = true, value_name = "DIR", conflicts_with = "server")]
    run: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Set(Set),
}

/// Change them, within the controller's bounds; who and why go into the log
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").multiple(true).required(true))]
struct Set {
    /// The worker whose compression is meant, instead of all
    #[arg(long, value_name = "ID")]
    worker: Option<u32>,
    /// Top-K with this share of entries, above 0 and at most 1
    #[arg(long, value_name = "RHO", value_parser = density, group = "what", group = "codec")]
    rho: Option<Density>,
    /// Quantize with this many bits, 2 to 8
    #[arg(long, value_name = "BITS", value_parser = bits, group = "what", group = "codec")]
    bits: Option<Bits>,
    /// No compression
    #[arg(long, group = "what", group = "codec")]
    dense: bool,
    /// Reject pushes that are staler than this
    #[arg(long, value_name = "VERSIONS", group = "what")]
    s_max: Option<u64>,
    /// Keep what is set against the policy
    #[arg(long, group = "what", group = "keep")]
    pin: bool,
    /// Let the policy move it again
    #[arg(long, group = "what", group = "keep")]
    release: bool,
    /// Who sets it
    #[arg(long, value_name = "NAME", default_value_t = whoever())]
    by: String,
    /// Why
    #[arg(long, value_name = "WORDS")]
    why: String,
}

fn density(text: &str) -> Result<Density, String> {
    let rho: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    Density::new(rho).map_err(|error| error.to_string())
}

fn bits(text: &str) -> Result<Bits, String> {
    let bits: u8 = text.parse().map_err(|_| "not a whole number".to_owned())?;
    Bits::new(bits).map_err(|error| error.to_string())
}

fn whoever() -> String {
    let user = std::env::var("USER").unwrap_or_else(|_| "somebody".into());
    format!("{user}@{}", host_name())
}

impl Set {
    fn operator(&self) -> Operator {
        let codec = match (self.rho, self.bits) {
            (Some(rho), _) => Some(Codec::TopK(rho)),
            (_, Some(bits)) => Some(Codec::Quantize(bits)),
            _ => self.dense.then_some(Codec::Identity),
        };
        Operator {
            by: self.by.clone(),
            why: self.why.clone(),
            set: Override {
                worker_id: self.worker.map(WorkerId),
                codec,
                s_max: self.s_max,
                pin: (self.pin || self.release).then_some(self.pin),
            },
        }
    }
}

impl Server {
    fn address(&self) -> Result<String> {
        let Some(dir) = &self.run else {
            return Ok(self.server.clone());
        };
        let path = dir.join(crate::cluster::ENDPOINTS_FILE);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("{}: was this run started by asgc local?", path.display()))?;
        let endpoints: Endpoints = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        Ok(format!("http://{}", endpoints.grpc))
    }
}

pub(crate) fn main(args: &Args) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let text = runtime.block_on(ask(args))?;
    output::say(&text);
    Ok(ExitCode::SUCCESS)
}

async fn ask(args: &Args) -> Result<String> {
    let mut admin = Admin::connect(&args.server.address()?).await?;
    match &args.action {
        None => {
            let report = admin.controls().await?;
            if args.server.json {
                return Ok(serde_json::to_string(&report)?);
            }
            Ok(show::report(&report))
        }
        Some(Action::Set(set)) => {
            let control = admin.set_controls(&set.operator()).await?;
            if control.operator.is_none() {
                bail!("the server logged another decision than the one asked for");
            }
            if args.server.json {
                return Ok(serde_json::to_string(&control)?);
            }
            Ok(show::decision(&control))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn set(line: &str) -> Result<Override, String> {
        let line = Line::try_parse_from(format!("controls set --why test {line}").split_whitespace());
        match line.map_err(|error| error.to_string())?.args.action {
            Some(Action::Set(set)) => Ok(set.operator().set),
            None => Err("no action".into()),
        }
    }

    #[test]
    fn flags_say_what_to_set() {
        let topk = |rho| Some(Codec::TopK(Density::new(rho).unwrap()));
        let found = set("--rho 0.1 --worker 2 --pin").unwrap();
        assert_eq!(
            (found.codec, found.worker_id, found.pin),
            (topk(0.1), Some(WorkerId(2)), Some(true))
        );
        let found = set("--s-max 7 --dense").unwrap();
        assert_eq!(
            (found.codec, found.s_max, found.pin),
            (Some(Codec::Identity), Some(7), None)
        );
        assert_eq!(set("--release").unwrap().pin, Some(false));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "",
            "--worker 1",
            "--rho 0",
            "--rho 0.1 --bits 4",
            "--bits 9",
            "--pin --release",
        ] {
            assert!(set(line).is_err(), "{line}");
        }
    }
}
