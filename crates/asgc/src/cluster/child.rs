//! One process of a cluster: started in a group of its own, logged to a file, signalled, waited for.

use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use tokio::process::Command;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What is started, and where its output goes.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    /// For remarks, such as `worker-0`.
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    /// Takes standard output and standard error.
    pub(crate) log: PathBuf,
    /// Whether the run needs at least one of these.
    pub(crate) trainer: bool,
}

impl Spec {
    /// Lets `program` start it: with `args`, and then this program and its arguments.
    pub(crate) fn run_by(&mut self, program: &str, args: Vec<String>) {
        let own = std::mem::replace(&mut self.program, program.into());
        let own = std::iter::once(own.display().to_string()).chain(self.args.drain(..));
        self.args = args.into_iter().chain(own).collect();
    }
}

/// A process that was started.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) name: String,
    pub(crate) log: PathBuf,
    pub(crate) trainer: bool,
    pub(crate) pid: Option<u32>,
    orders: UnboundedSender<Signal>,
}

/// The end of the child with this number.
pub(crate) type Exit = (usize, io::Result<ExitStatus>);

impl Child {
    /// Starts the process. Its end is told to `exits`; if `asgc` ends first, it is killed.
    pub(crate) fn spawn(spec: &Spec, number: usize, exits: UnboundedSender<Exit>) -> Result<Self> {
        let log = File::create(&spec.log).with_context(|| spec.log.display().to_string())?;
        let child = Command::new(&spec.program)
            .args(&spec.args)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // The terminal's Ctrl-C must reach the server by way of asgc only, so that it can drain.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| spec.program.display().to_string())?;
        let pid = child.id();
        let (orders, received) = unbounded_channel();
        tokio::spawn(watch(child, number, received, exits));
        let (name, log, trainer) = (spec.name.clone(), spec.log.clone(), spec.trainer);
        Ok(Self {
            name,
            log,
            trainer,
            pid,
            orders,
        })
    }

    /// Signals the process and whatever it started; does nothing once it has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        // Only the watcher knows whether the process id is still this child's.
        let _ = self.orders.send(signal);
    }

    /// How the process ended and the end of its log, for people.
    pub(crate) fn obituary(&self, status: &io::Result<ExitStatus>) -> String {
        let lines = last_lines(&self.log).unwrap_or_default();
        let shown: String = lines.iter().map(|line| format!("\n  | {line}")).collect();
        let words = match status {
            Ok(status) => describe(*status),
            Err(error) => format!("was lost: {error}"),
        };
        let tail = if shown.is_empty() {
            "; its log is empty".into()
        } else {
            format!("; the end of its log:{shown}")
        };
        format!("{} {words}{tail}", self.name)
    }
}

async fn watch(
    mut child: tokio::process::Child,
    number: usize,
    mut orders: UnboundedReceiver<Signal>,
    exits: UnboundedSender<Exit>,
) {
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            Some(signal) = orders.recv() => {
                if let Some(group) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
                    let _ = killpg(Pid::from_raw(group), signal);
                }
            }
        }
    };
    let _ = exits.send((number, status));
}

/// `ended with exit code 3`, `was killed by signal 9`.
pub(crate) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// The last ten lines of a file, looking no further back than 8 KiB.
fn last_lines(path: &Path) -> io::Result<Vec<String>> {
    const LINES: usize = 10;
    const REACH: u64 = 8 << 10;
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(REACH)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    Ok(lines[lines.len().saturating_sub(LINES)..].to_vec())
}
