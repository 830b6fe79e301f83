//! Links between workers and the server: capacity, distance, loss.
//!
//! Each worker has an uplink and a downlink, its own or one that all share. A message with content takes its turn in
//! the [`Pipe`], then travels for the latency; one without (a pull, a verdict, controls) travels for the latency alone,
//! since it goes between chunks and weighs next to nothing. On one link and direction messages arrive in the order in
//! which they left, as on a TCP stream.

use super::agenda::Agenda;
use super::loss::Loss;
use super::pipe::{Pipe, TransferId};
use asgc_core::config::{Config, Simulation};
use std::collections::BTreeMap;
use std::time::Duration;

/// A place in the network: trainers by id, then the evaluator.
pub(super) type Place = usize;

/// Which way a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Worker to server.
    Up,
    /// Server to worker.
    Down,
}

/// A message with content: what its way leads to.
#[derive(Debug)]
pub(super) struct Cargo<T> {
    pub(super) bytes: u64,
    /// When the last byte has left.
    pub(super) sent: Option<T>,
    /// When the last byte is there.
    pub(super) arrived: T,
}

/// A pipe that carries something may have come to the end of a transfer.
#[derive(Debug, Clone, Copy)]
pub(super) struct PipeEnd {
    pipe: usize,
    epoch: u64,
}

#[derive(Debug)]
struct Transfer<T> {
    route: (Place, Way),
    pipe: usize,
    repeated_rounds: u32,
    cargo: Cargo<T>,
}

/// One direction of one worker's link.
#[derive(Debug)]
struct Lane {
    pipe: usize,
    latency: Duration,
    loss: Loss,
    /// When what left last is there.
    last_arrival: Duration,
}

#[derive(Debug)]
pub(super) struct Network<T> {
    pipes: Vec<Pipe>,
    up: Vec<Lane>,
    down: Vec<Lane>,
    transfers: BTreeMap<TransferId, Transfer<T>>,
    next: TransferId,
}

impl<T: From<PipeEnd>> Network<T> {
    /// Links of `trainers` trainers, and one without limits of the evaluator.
    pub(super) fn new(config: &Config, trainers: u32) -> Self {
        let simulation = &config.simulation;
        let mut pipes = Vec::new();
        let shared = [
            (simulation.uplink_shared, simulation.uplink_mbps),
            (simulation.downlink_shared, simulation.downlink_mbps),
        ]
        .map(|(shared, mbps)| shared.then(|| put(&mut pipes, mbps)));
        let mut network = Self {
            up: Vec::new(),
            down: Vec::new(),
            transfers: BTreeMap::new(),
            next: 0,
            pipes,
        };
        for worker in 0..trainers {
            let [up, down] = rates(simulation, worker);
            let up = shared[0].unwrap_or_else(|| put(&mut network.pipes, up));
            let down = shared[1].unwrap_or_else(|| put(&mut network.pipes, down));
            network.up.push(lane(config, up, (worker, Way::Up)));
            network.down.push(lane(config, down, (worker, Way::Down)));
        }
        for lanes in [&mut network.up, &mut network.down] {
            lanes.push(Lane {
                pipe: put(&mut network.pipes, 0.0),
                latency: Duration::ZERO,
                loss: Loss::new(0.0, 0, 0),
                last_arrival: Duration::ZERO,
            });
        }
        network
    }

    /// There and back, for a message without content.
    pub(super) fn round_trip(&self, place: Place) -> Duration {
        self.up[place].latency + self.down[place].latency
    }

    /// Sends a message without content.
    pub(super) fn send(&mut self, route: (Place, Way), message: T, agenda: &mut Agenda<T>) {
        let rounds = self.lane(route).loss.of_message(0).rounds;
        self.arrive(route, rounds, message, agenda);
    }

    /// Sends a message with content.
    pub(super) fn carry(
        &mut self,
        route: (Place, Way),
        cargo: Cargo<T>,
        agenda: &mut Agenda<T>,
    ) -> TransferId {
        let lane = self.lane(route);
        let (pipe, repeated) = (lane.pipe, lane.loss.of_message(cargo.bytes));
        let id = self.next;
        self.next += 1;
        self.pipes[pipe].start(agenda.now(), id, cargo.bytes.saturating_add(repeated.bytes));
        let transfer = Transfer {
            route,
            pipe,
            repeated_rounds: repeated.rounds,
            cargo,
        };
        self.transfers.insert(id, transfer);
        self.expect_end(pipe, agenda);
        id
    }

    /// Stops sending: what has left already is lost.
    pub(super) fn cancel(&mut self, id: TransferId, agenda: &mut Agenda<T>) {
        if let Some(transfer) = self.transfers.remove(&id) {
            self.pipes[transfer.pipe].cancel(agenda.now(), id);
            self.expect_end(transfer.pipe, agenda);
        }
    }

    /// A pipe may have come to the end of a transfer.
    pub(super) fn end(&mut self, PipeEnd { pipe, epoch }: PipeEnd, agenda: &mut Agenda<T>) {
        if self.pipes[pipe].epoch() != epoch {
            return;
        }
        for id in self.pipes[pipe].end(agenda.now()) {
            let Some(transfer) = self.transfers.remove(&id) else {
                continue;
            };
            let Cargo { sent, arrived, .. } = transfer.cargo;
            // What arrives is put down first: whatever the sender does next comes behind it, also without latency.
            self.arrive(transfer.route, transfer.repeated_rounds, arrived, agenda);
            sent.into_iter()
                .for_each(|sent| agenda.after(Duration::ZERO, sent));
        }
        self.expect_end(pipe, agenda);
    }

    fn expect_end(&self, pipe: usize, agenda: &mut Agenda<T>) {
        if let Some(end) = self.pipes[pipe].next_end() {
            let epoch = self.pipes[pipe].epoch();
            agenda.at(end, PipeEnd { pipe, epoch }.into());
        }
    }

    fn arrive(&mut self, route: (Place, Way), rounds: u32, message: T, agenda: &mut Agenda<T>) {
        let repeated = self.round_trip(route.0).saturating_mul(rounds);
        let now = agenda.now();
        let lane = self.lane(route);
        let at = now.saturating_add(lane.latency).saturating_add(repeated);
        lane.last_arrival = lane.last_arrival.max(at);
        agenda.at(lane.last_arrival, message);
    }

    fn lane(&mut self, (place, way): (Place, Way)) -> &mut Lane {
        match way {
            Way::Up => &mut self.up[place],
            Way::Down => &mut self.down[place],
        }
    }
}

fn put(pipes: &mut Vec<Pipe>, mbps: f64) -> usize {
    pipes.push(Pipe::new(mbps));
    pipes.len() - 1
}

/// Up and down, in Mbit/s.
fn rates(simulation: &Simulation, worker: u32) -> [f64; 2] {
    let of = |by_worker: &BTreeMap<u32, f64>, all| by_worker.get(&worker).copied().unwrap_or(all);
    [
        of(&simulation.uplink_by_worker, simulation.uplink_mbps),
        of(&simulation.downlink_by_worker, simulation.downlink_mbps),
    ]
}

fn lane(config: &Config, pipe: usize, (worker, way): (u32, Way)) -> Lane {
    let simulation = &config.simulation;
    let own = simulation.latency_by_worker.get(&worker).copied();
    let latency_ms = own.unwrap_or(simulation.latency_ms);
    let stream = 2 * u64::from(worker) + u64::from(way == Way::Down);
    Lane {
        pipe,
        latency: Duration::try_from_secs_f64(latency_ms / 1e3).unwrap_or(Duration::MAX),
        loss: Loss::new(simulation.loss, config.run.seed, stream),
        last_arrival: Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    enum Note {
        Said(&'static str),
        End(PipeEnd),
    }

    impl From<PipeEnd> for Note {
        fn from(end: PipeEnd) -> Self {
            Self::End(end)
        }
    }

    struct Bench {
        network: Network<Note>,
        agenda: Agenda<Note>,
    }

    impl Bench {
        fn new(change: impl FnOnce(&mut Simulation)) -> Self {
            let mut config = Config::default();
            change(&mut config.simulation);
            Self {
                network: Network::new(&config, 2),
                agenda: Agenda::new(),
            }
        }

        fn carry(&mut self, place: Place, way: Way, bytes: u64, names: [&'static str; 2]) -> TransferId {
            let [sent, arrived] = names.map(Note::Said);
            let cargo = Cargo {
                bytes,
                sent: Some(sent),
                arrived,
            };
            self.network.carry((place, way), cargo, &mut self.agenda)
        }

        /// What happened, with its time in ms.
        fn run(&mut self) -> Vec<String> {
            let mut told = Vec::new();
            while let Some(note) = self.agenda.next() {
                match note {
                    Note::Said(what) => told.push(format!("{what} {}", self.agenda.now().as_millis())),
                    Note::End(end) => self.network.end(end, &mut self.agenda),
                }
            }
            told
        }
    }

    #[test]
    fn capacity_first_and_distance_after() {
        let mut bench = Bench::new(|s| (s.uplink_mbps, s.latency_ms) = (8.0, 30.0));
        bench.carry(0, Way::Up, 5_000, ["sent", "there"]);
        bench
            .network
            .send((1, Way::Up), Note::Said("pull"), &mut bench.agenda);
        assert_eq!(bench.run(), ["sent 5", "pull 30", "there 35"]);
        assert_eq!(bench.network.round_trip(0), Duration::from_millis(60));
    }

    #[test]
    fn workers_have_links_of_their_own_unless_they_share_one() {
        let mut own = Bench::new(|s| {
            s.uplink_mbps = 8.0;
            s.uplink_by_worker = [(1, 4.0)].into();
        });
        own.carry(0, Way::Up, 4_000, ["a", "a there"]);
        own.carry(1, Way::Up, 4_000, ["b", "b there"]);
        assert_eq!(own.run(), ["a there 4", "a 4", "b there 8", "b 8"]);
        let mut shared = Bench::new(|s| (s.downlink_mbps, s.downlink_shared) = (8.0, true));
        shared.carry(0, Way::Down, 4_000, ["a", "a there"]);
        shared.carry(1, Way::Down, 4_000, ["b", "b there"]);
        // The evaluator's link is nobody else's.
        shared.carry(2, Way::Down, 4_000, ["c", "c there"]);
        assert_eq!(
            shared.run(),
            ["c there 0", "c 0", "a there 8", "a 8", "b there 8", "b 8"]
        );
    }

    #[test]
    fn what_leaves_later_arrives_no_sooner() {
        let mut bench = Bench::new(|s| (s.loss, s.latency_ms) = (0.8, 10.0));
        for name in ["1", "2", "3", "4", "5", "6", "7", "8"] {
            bench
                .network
                .send((0, Way::Up), Note::Said(name), &mut bench.agenda);
        }
        let told = bench.run();
        let order = told.iter().map(|line| &line[..1]).collect::<String>();
        assert_eq!(order, "12345678");
        assert!(
            told.last().unwrap() > &"8 10".to_owned(),
            "none was repeated: {told:?}"
        );
    }

    #[test]
    fn what_is_cancelled_never_arrives() {
        let mut bench = Bench::new(|s| s.uplink_mbps = 8.0);
        let first = bench.carry(0, Way::Up, 4_000, ["a", "a there"]);
        bench.carry(0, Way::Up, 4_000, ["b", "b there"]);
        bench.network.cancel(first, &mut bench.agenda);
        assert_eq!(bench.run(), ["b there 4", "b 4"]);
    }
}
