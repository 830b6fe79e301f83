//! Links for one run: a network namespace for each worker, joined by a bridge, its uplink shaped by `tc tbf`.
//!
//! ```text
//! server, evaluator -- bridge asgcbPID, 10.213.N.1 -- asgcPIDhI ==veth== eth0, 10.213.N.(10+I), in asgc-PID-wI
//! ```
//!
//! What leaves a namespace is the worker's uplink, what leaves the bridge's end its downlink. All of it is gone when
//! [`Network`] is dropped; what a killed process left is removed by the next.

use super::rate::Rate;
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

/// Bytes that may pass at once: two full packets, so that a small push does not slip through unshaped.
const BURST_BYTES: u32 = 3_100;

/// Longest wait in the queue before packets are dropped.
const LATENCY: &str = "1s";

/// The networks that are tried, 10.213.N.0/24.
const NETWORKS: std::ops::Range<u8> = 1..250;

/// Namespaces and a bridge of this process.
#[derive(Debug)]
pub(super) struct Network {
    id: u32,
    subnet: u8,
    workers: u32,
}

impl Network {
    /// Sets up links for `workers`; says what is missing where that cannot be.
    pub(super) fn new(workers: u32) -> Result<Self> {
        check_means()?;
        let id = std::process::id();
        remove_leftovers()?;
        let network = Self {
            id,
            subnet: free_subnet()?,
            workers,
        };
        // From here on, dropping it removes what was made so far.
        network.bridge()?;
        (0..workers).try_for_each(|worker| network.join(worker))?;
        Ok(network)
    }

    /// The server's address.
    pub(super) fn host(&self) -> String {
        format!("10.213.{}.1", self.subnet)
    }

    /// What runs a program as worker `worker`: `ip netns exec NAMESPACE`.
    pub(super) fn prefix(&self, worker: u32) -> Vec<String> {
        ["netns", "exec", &self.namespace(worker)]
            .map(str::to_owned)
            .to_vec()
    }

    /// Shapes, or shapes anew, a worker's uplink; `None` lets everything through.
    pub(super) fn shape_uplink(&self, worker: u32, rate: Option<Rate>) -> Result<()> {
        let mut args = self.prefix(worker);
        args.push("tc".to_owned());
        args.extend(shaping("eth0", rate));
        ip(&args)
    }

    /// The same for its downlink.
    pub(super) fn shape_downlink(&self, worker: u32, rate: Option<Rate>) -> Result<()> {
        run("tc", &shaping(&self.port(worker), rate))
    }

    fn bridge(&self) -> Result<()> {
        let bridge = self.bridge_name();
        ip_words(&format!("link add {bridge} type bridge"))?;
        ip_words(&format!("addr add {}/24 dev {bridge}", self.host()))?;
        ip_words(&format!("link set {bridge} up"))
    }

    fn join(&self, worker: u32) -> Result<()> {
        let (namespace, port, bridge) = (self.namespace(worker), self.port(worker), self.bridge_name());
        let address = format!("10.213.{}.{}", self.subnet, 10 + worker);
        ip_words(&format!("netns add {namespace}"))?;
        ip_words(&format!(
            "link add {port} type veth peer name eth0 netns {namespace}"
        ))?;
        ip_words(&format!("link set {port} master {bridge} up"))?;
        ip_words(&format!("-n {namespace} addr add {address}/24 dev eth0"))?;
        ip_words(&format!("-n {namespace} link set eth0 up"))?;
        ip_words(&format!("-n {namespace} link set lo up"))
    }

    fn bridge_name(&self) -> String {
        format!("asgcb{}", self.id)
    }

    fn namespace(&self, worker: u32) -> String {
        format!("asgc-{}-w{worker}", self.id)
    }

    fn port(&self, worker: u32) -> String {
        format!("asgc{}h{worker}", self.id)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Nothing more can be done about what does not go; the next run tries again.
        for worker in 0..self.workers {
            let _ = ip_words(&format!("netns del {}", self.namespace(worker)));
        }
        let _ = ip_words(&format!("link del {}", self.bridge_name()));
    }
}

fn shaping(device: &str, rate: Option<Rate>) -> Vec<String> {
    let words = match rate {
        Some(rate) => format!(
            "qdisc replace dev {device} root tbf rate {}bit burst {BURST_BYTES} latency {LATENCY}",
            rate.bits_per_s()
        ),
        None => format!("qdisc replace dev {device} root pfifo_fast"),
    };
    words.split(' ').map(str::to_owned).collect()
}

fn check_means() -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        bail!("shaping a link needs root: run it with sudo, or leave --uplink at none");
    }
    for program in ["ip", "tc"] {
        let found = Command::new(program)
            .arg("-V")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if found.is_err() {
            bail!("`{program}` is not installed; Debian and Ubuntu have it in the package iproute2");
        }
    }
    Ok(())
}

/// Removes namespaces and bridges of processes that are gone.
fn remove_leftovers() -> Result<()> {
    for namespace in names(&output("ip", &["netns", "list"])?, "asgc-", "-w") {
        let _ = ip_words(&format!("netns del {namespace}"));
    }
    let links = output("ip", &["-br", "link", "show", "type", "bridge"])?;
    for bridge in names(&links, "asgcb", "") {
        let _ = ip_words(&format!("link del {bridge}"));
    }
    Ok(())
}

/// First words of lines that are `head`, a process id and `tail…`, where no such process lives.
fn names(listing: &str, head: &str, tail: &str) -> Vec<String> {
    let orphan = |name: &&str| {
        let id = name
            .strip_prefix(head)
            .map(|rest| rest.split(tail).next().unwrap_or(rest));
        let id = id.map(|id| {
            if tail.is_empty() {
                name.trim_start_matches(head)
            } else {
                id
            }
        });
        let id = id.and_then(|id| id.parse::<u32>().ok());
        id.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists())
    };
    let first = listing.lines().filter_map(|line| line.split_whitespace().next());
    first.filter(orphan).map(str::to_owned).collect()
}

fn free_subnet() -> Result<u8> {
    let taken = subnets(&output("ip", &["-o", "-4", "addr"])?);
    let free = NETWORKS.into_iter().find(|subnet| !taken.contains(subnet));
    free.context("all networks 10.213.1.0/24 to 10.213.249.0/24 are in use on this machine")
}

fn subnets(listing: &str) -> BTreeSet<u8> {
    let addresses = listing
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("10.213."));
    addresses
        .filter_map(|rest| rest.split('.').next()?.parse().ok())
        .collect()
}

fn ip_words(words: &str) -> Result<()> {
    ip(&words.split(' ').map(str::to_owned).collect::<Vec<_>>())
}

fn ip(args: &[String]) -> Result<()> {
    run("ip", args)
}

fn run(program: &str, args: &[String]) -> Result<()> {
    output(program, &args.iter().map(String::as_str).collect::<Vec<_>>()).map(drop)
}

fn output(program: &str, args: &[&str]) -> Result<String> {
    let line = || format!("{program} {}", args.join(" "));
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .with_context(line)?;
    if !output.status.success() {
        bail!("{}: {}", line(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_shaped_and_let_go() {
        let words = |rate| shaping("eth0", rate).join(" ");
        assert_eq!(
            words(Some("6mbit".parse().unwrap())),
            "qdisc replace dev eth0 root tbf rate 6000000bit burst 3100 latency 1s"
        );
        assert_eq!(words(None), "qdisc replace dev eth0 root pfifo_fast");
    }

    #[test]
    fn only_what_dead_processes_left_is_removed() {
        let living = std::process::id();
        let listing =
            format!("asgc-4194305-w0 (id: 3)\nasgc-{living}-w1\nother\nasgc-x-w2\nasgc-4194305-w12");
        assert_eq!(
            names(&listing, "asgc-", "-w"),
            ["asgc-4194305-w0", "asgc-4194305-w12"]
        );
        assert_eq!(
            names("asgcb4194305 UP aa:bb\nasgcbx\ndocker0", "asgcb", ""),
            ["asgcb4194305"]
        );
    }

    #[test]
    fn networks_in_use_are_seen() {
        let listing = "1: lo inet 127.0.0.1/8\n2: b inet 10.213.1.1/24 brd 10.213.1.255 scope global b";
        assert_eq!(subnets(listing), BTreeSet::from([1]));
    }

    /// Needs root, `ip` and `tc`; says so where it has to be left out.
    #[test]
    fn namespaces_come_and_go() {
        if let Err(why) = check_means() {
            eprintln!("skipped: {why}");
            return;
        }
        let listed = || output("ip", &["netns", "list"]).unwrap();
        let network = match Network::new(2) {
            Ok(network) => network,
            // Root in a container without the right to make namespaces.
            Err(why) => return eprintln!("skipped: {why:#}"),
        };
        let (first, prefix) = (network.namespace(0), network.prefix(1));
        network.shape_uplink(0, Some("1mbit".parse().unwrap())).unwrap();
        network.shape_downlink(1, Some("2mbit".parse().unwrap())).unwrap();
        network.shape_uplink(0, None).unwrap();
        assert!(listed().contains(&first));
        let mut ping = prefix;
        let host = network.host();
        ping.extend(["ip", "route", "get", &host].map(str::to_owned));
        ip(&ping).unwrap();
        drop(network);
        assert!(!listed().contains(&first));
        assert!(free_subnet().is_ok());
    }
}
