//! What sets a network up, shapes it and takes it away, as the lines that `ip` and `tc` are given.
//!
//! Every name begins with `asgc` and the process's id, so that several networks live beside each other and a killed
//! process's can be told from a living one's. The longest, `asgc4194304h239`, just fits the kernel's 15 letters.

use super::rate::Rate;

/// Workers that a network has names and addresses for.
pub(super) const MOST_WORKERS: u32 = 240;

/// Bytes that may pass at once at a low rate: one frame of 1514 bytes and a little more. A link that stood idle
/// lets as much through for nothing, so a burst of 16 kB would carry a whole small push at no cost.
const LEAST_BURST_BYTES: u64 = 2000;

/// At higher rates, as much as passes in this time: timers wake a little late, and what came due has to go.
const BURST_S: f64 = 0.2e-3;

/// Longest wait in the queue before packets are dropped.
const LATENCY: &str = "1s";

/// The names and addresses of one network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Names {
    /// The process that it belongs to.
    pub(super) id: u32,
    /// `N` of the network 10.213.N.0/24.
    pub(super) subnet: u8,
}

/// A line that sets something up, and the one that takes it away, if it does not go with something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) up: String,
    pub(super) down: Option<String>,
}

impl Names {
    pub(super) fn bridge(self) -> String {
        format!("asgc{}b", self.id)
    }

    /// The bridge's end of a worker's link.
    pub(super) fn port(self, worker: u32) -> String {
        format!("asgc{}h{worker}", self.id)
    }

    pub(super) fn namespace(self, worker: u32) -> String {
        format!("asgc{}w{worker}", self.id)
    }

    /// The server's address.
    pub(super) fn host(self) -> String {
        format!("10.213.{}.1", self.subnet)
    }

    fn address(self, worker: u32) -> String {
        format!("10.213.{}.{}", self.subnet, 10 + worker)
    }

    /// In order. What is taken away is so in the opposite order: a worker's link before its namespace, since a
    /// namespace's links vanish only some time after it, and the bridge last.
    pub(super) fn set_up(self, workers: u32) -> Vec<Step> {
        let bridge = self.bridge();
        let mut steps = vec![
            step(
                format!("ip link add {bridge} type bridge"),
                Some(format!("ip link del {bridge}")),
            ),
            step(format!("ip addr add {}/24 dev {bridge}", self.host()), None),
            step(format!("ip link set {bridge} up"), None),
        ];
        for worker in 0..workers {
            let (space, port, address) = (self.namespace(worker), self.port(worker), self.address(worker));
            steps.extend([
                step(
                    format!("ip netns add {space}"),
                    Some(format!("ip netns del {space}")),
                ),
                step(
                    format!("ip link add {port} type veth peer name eth0 netns {space}"),
                    Some(format!("ip link del {port}")),
                ),
                step(format!("ip link set {port} master {bridge} up"), None),
                step(format!("ip -n {space} addr add {address}/24 dev eth0"), None),
                step(format!("ip -n {space} link set eth0 up"), None),
                step(format!("ip -n {space} link set lo up"), None),
            ]);
        }
        steps
    }

    /// Shapes a worker's uplink, or shapes it anew with what is under way left in its queue; `None` lets everything
    /// through.
    pub(super) fn uplink(self, worker: u32, rate: Option<Rate>) -> String {
        format!("tc -n {} {}", self.namespace(worker), shaping("eth0", rate))
    }

    /// The same for its downlink.
    pub(super) fn downlink(self, worker: u32, rate: Option<Rate>) -> String {
        format!("tc {}", shaping(&self.port(worker), rate))
    }
}

fn step(up: String, down: Option<String>) -> Step {
    Step { up, down }
}

fn shaping(device: &str, rate: Option<Rate>) -> String {
    match rate {
        Some(rate) => format!(
            "qdisc replace dev {device} root tbf rate {}bit burst {} latency {LATENCY}",
            rate.bits_per_s(),
            burst_bytes(rate)
        ),
        None => format!("qdisc replace dev {device} root pfifo_fast"),
    }
}

fn burst_bytes(rate: Rate) -> u64 {
    LEAST_BURST_BYTES.max((rate.bytes_per_s() * BURST_S) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Names = Names { id: 77, subnet: 5 };

    #[test]
    fn a_network_is_set_up_from_the_bridge_outwards() {
        let lines: Vec<_> = NAMES.set_up(2).into_iter().map(|step| step.up).collect();
        let expect = "\
ip link add asgc77b type bridge
ip addr add 10.213.5.1/24 dev asgc77b
ip link set asgc77b up
ip netns add asgc77w0
ip link add asgc77h0 type veth peer name eth0 netns asgc77w0
ip link set asgc77h0 master asgc77b up
ip -n asgc77w0 addr add 10.213.5.10/24 dev eth0
ip -n asgc77w0 link set eth0 up
ip -n asgc77w0 link set lo up
ip netns add asgc77w1
ip link add asgc77h1 type veth peer name eth0 netns asgc77w1
ip link set asgc77h1 master asgc77b up
ip -n asgc77w1 addr add 10.213.5.11/24 dev eth0
ip -n asgc77w1 link set eth0 up
ip -n asgc77w1 link set lo up";
        assert_eq!(lines.join("\n"), expect);
    }

    #[test]
    fn it_is_taken_away_from_the_outside_inwards() {
        let lines: Vec<_> = NAMES
            .set_up(2)
            .into_iter()
            .rev()
            .filter_map(|step| step.down)
            .collect();
        let expect = [
            "ip link del asgc77h1",
            "ip netns del asgc77w1",
            "ip link del asgc77h0",
            "ip netns del asgc77w0",
            "ip link del asgc77b",
        ];
        assert_eq!(lines, expect);
    }

    #[test]
    fn links_are_shaped_and_let_go() {
        let rate = |text: &str| Some(text.parse().unwrap());
        assert_eq!(
            NAMES.uplink(1, rate("6mbit")),
            "tc -n asgc77w1 qdisc replace dev eth0 root tbf rate 6000000bit burst 2000 latency 1s"
        );
        assert_eq!(
            NAMES.downlink(0, rate("1.5gbit")),
            "tc qdisc replace dev asgc77h0 root tbf rate 1500000000bit burst 37500 latency 1s"
        );
        assert_eq!(
            NAMES.uplink(0, None),
            "tc -n asgc77w0 qdisc replace dev eth0 root pfifo_fast"
        );
    }

    #[test]
    fn the_longest_names_and_the_last_address_fit() {
        let names = Names {
            id: 4_194_304,
            subnet: 249,
        };
        let last = MOST_WORKERS - 1;
        for name in [names.bridge(), names.port(last), names.namespace(last)] {
            assert!(name.len() <= 15, "{name}");
        }
        assert!(names.address(last).parse::<std::net::Ipv4Addr>().is_ok());
    }
}
