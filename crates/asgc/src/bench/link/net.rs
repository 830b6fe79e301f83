//! Links for one run: a network namespace for each worker, joined by a bridge, its uplink shaped by `tc tbf`.
//!
//! ```text
//! server, evaluator -- bridge asgcPIDb, 10.213.N.1 -- asgcPIDhI ==veth== eth0, 10.213.N.(10+I), in asgcPIDwI
//! ```
//!
//! What leaves a namespace is the worker's uplink, what leaves the bridge's end its downlink. All of it is gone when
//! [`Network`] is dropped; what a killed process left is removed by the next.

use super::commands::{MOST_WORKERS, Names};
use super::leftovers::{is_living, is_taken, orphans};
use super::rate::Rate;
use crate::output;
use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

/// Held while a network is set up, so that no two take the same addresses.
const LOCK: &str = "/run/asgc-bench-link.lock";

/// Namespaces and a bridge of this process, which may have one network at a time.
#[derive(Debug)]
pub(super) struct Network {
    names: Names,
    workers: u32,
    /// What takes away what was made so far.
    undo: Vec<String>,
}

impl Network {
    /// Sets up links for `workers`, after [`check_means`].
    pub(super) fn new(workers: u32) -> Result<Self> {
        if workers > MOST_WORKERS {
            bail!("a network has room for {MOST_WORKERS} workers, not for {workers}");
        }
        let lock = File::create(LOCK).with_context(|| LOCK.to_owned())?;
        lock.lock().with_context(|| LOCK.to_owned())?;
        remove_leftovers()?;
        let names = Names {
            id: std::process::id(),
            subnet: free_subnet()?,
        };
        let mut network = Self {
            names,
            workers,
            undo: Vec::new(),
        };
        for step in names.set_up(workers) {
            // A failure drops the network, which takes away what was made so far.
            run(&step.up)?;
            network.undo.extend(step.down);
        }
        Ok(network)
    }

    /// The server's address.
    pub(super) fn host(&self) -> String {
        self.names.host()
    }

    /// What runs a program as worker `worker`: arguments of `ip`, to be followed by the program.
    pub(super) fn prefix(&self, worker: u32) -> Vec<String> {
        ["netns", "exec", &self.names.namespace(worker)]
            .map(str::to_owned)
            .to_vec()
    }

    /// Shapes a worker's uplink, or shapes it anew; `None` lets everything through.
    pub(super) fn shape_uplink(&self, worker: u32, rate: Option<Rate>) -> Result<()> {
        shape(&self.names.uplink(worker, rate))
    }

    /// The same for its downlink.
    pub(super) fn shape_downlink(&self, worker: u32, rate: Option<Rate>) -> Result<()> {
        shape(&self.names.downlink(worker, rate))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Processes end before the network does, unless something went wrong. Left alive they would keep it.
        for worker in 0..self.workers {
            kill_all_in(&self.names.namespace(worker));
        }
        for line in self.undo.drain(..).rev() {
            if let Err(error) = run(&line) {
                output::note(&format!("{error:#}; the next `asgc bench link` tries again"));
            }
        }
    }
}

/// Says what is missing where links cannot be shaped; touches nothing.
pub(super) fn check_means() -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        bail!("shaping a link needs root: run it with sudo, or with --uplink none and no --downlink");
    }
    for program in ["ip", "tc"] {
        if run(&format!("{program} -V")).is_err() {
            bail!(
                "`{program}` is missing; Debian and Ubuntu have it in the package iproute2: apt-get install iproute2"
            );
        }
    }
    Ok(())
}

fn shape(line: &str) -> Result<()> {
    run(line)
        .map(drop)
        .context("cannot shape a link; the kernel needs the queueing discipline tbf (CONFIG_NET_SCH_TBF)")
}

/// Removes the networks of processes that are gone.
fn remove_leftovers() -> Result<()> {
    let spaces = orphans(&run("ip netns list")?, is_living);
    for space in &spaces {
        // The workers of a killed `asgc`.
        kill_all_in(space);
    }
    let links = orphans(&run("ip -br link show")?, is_living);
    let links = links.iter().map(|link| format!("ip link del {link}"));
    let spaces = spaces.iter().map(|space| format!("ip netns del {space}"));
    for line in links.chain(spaces) {
        run(&line).context("cannot remove what an earlier run left")?;
        output::note(&format!(
            "an earlier run was killed; removed what it left: {line}"
        ));
    }
    Ok(())
}

fn kill_all_in(namespace: &str) {
    // Without the namespace there is nobody in it.
    let listing = run(&format!("ip netns pids {namespace}")).unwrap_or_default();
    for id in listing.split_whitespace().filter_map(|id| id.parse().ok()) {
        // An error says that it has ended meanwhile.
        let _ = kill(Pid::from_raw(id), Signal::SIGKILL);
    }
}

fn free_subnet() -> Result<u8> {
    let listings = run("ip -o -4 addr show")? + &run("ip -o -4 route show table all")?;
    (0..=255)
        .find(|subnet| !is_taken(*subnet, &listings))
        .context("all networks from 10.213.0.0/24 to 10.213.255.0/24 are in use on this machine")
}

/// Runs a line of words; what it printed.
fn run(line: &str) -> Result<String> {
    let mut words = line.split(' ');
    let output = Command::new(words.next().unwrap_or_default())
        .args(words)
        .stdin(Stdio::null())
        // The terminal's Ctrl-C must not end it half-way, least of all while the network is taken away.
        .process_group(0)
        .output()
        .with_context(|| line.to_owned())?;
    if !output.status.success() {
        bail!("{line}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
