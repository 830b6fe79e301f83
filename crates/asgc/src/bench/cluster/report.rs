//! What the measurements came to.

use super::Used;
use super::client::Served;
use crate::bench::roofline::Roofline;
use crate::bench::stats::{fairness, percentile};
use crate::bench::table::{Table, machine};
use asgc_lab::units;
use serde::Serialize;

/// The whole result.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    workers: u32,
    parameters: u32,
    machine: Roofline,
    rows: Vec<Row>,
}

/// One codec.
#[derive(Debug, Default, Serialize)]
pub(super) struct Row {
    codec: String,
    seconds: f64,
    updates_per_s: f64,
    accepted: u64,
    rejected: u64,
    pulls: u64,
    reconnects: u64,
    /// Workers of which nothing was accepted.
    starved: u64,
    /// Most accepted of a worker over least; `None` where one got nothing.
    fairness: Option<f64>,
    /// From a gradient to its verdict, encoding and sending included.
    latency_p50_s: Option<f64>,
    latency_p99_s: Option<f64>,
    /// Of the sockets, framing included.
    uplink_bytes_per_s: f64,
    downlink_bytes_per_s: f64,
    server_cpu_s: f64,
    clients_cpu_s: f64,
    memory: Memory,
}

/// The most that processes ever held, in bytes.
#[derive(Debug, Default, Serialize)]
struct Memory {
    /// Before anybody joined.
    server_idle_bytes: u64,
    server_bytes: u64,
    clients_bytes: u64,
    /// Beyond the idle process, against 4 bytes a parameter.
    server_times_parameters: f64,
    clients_times_parameters: f64,
}

impl Row {
    pub(super) fn new(codec: &str, served: &[Served], used: Used) -> Self {
        let seconds = served.iter().map(|s| s.seconds).fold(0.0, f64::max);
        let accepted: Vec<u64> = served.iter().map(|s| s.accepted).collect();
        let sum = |count: fn(&Served) -> u64| served.iter().map(count).sum::<u64>();
        let mut latencies: Vec<u32> = served
            .iter()
            .flat_map(|s| s.latencies_us.iter().copied())
            .collect();
        latencies.sort_unstable();
        let latency = |p| percentile(&latencies, p).map(|us| f64::from(us) / 1e6);
        Self {
            codec: codec.to_owned(),
            seconds,
            updates_per_s: sum(|s| s.accepted) as f64 / seconds,
            accepted: sum(|s| s.accepted),
            rejected: sum(|s| s.rejected),
            pulls: sum(|s| s.pulls),
            reconnects: sum(|s| s.reconnects),
            starved: accepted.iter().filter(|&&count| count == 0).count() as u64,
            fairness: fairness(&accepted).filter(|ratio| ratio.is_finite()),
            latency_p50_s: latency(0.5),
            latency_p99_s: latency(0.99),
            uplink_bytes_per_s: used.uplink / seconds,
            downlink_bytes_per_s: used.downlink / seconds,
            server_cpu_s: used.server_s,
            clients_cpu_s: used.clients_s,
            memory: Memory::default(),
        }
    }

    /// `(idle server, server, clients)` in bytes, beside those of the parameters.
    pub(super) fn with_memory(mut self, parameters: u64, (idle, server, clients): (u64, u64, u64)) -> Self {
        self.memory = Memory {
            server_idle_bytes: idle,
            server_bytes: server,
            clients_bytes: clients,
            server_times_parameters: server.saturating_sub(idle) as f64 / parameters as f64,
            clients_times_parameters: clients as f64 / parameters as f64,
        };
        self
    }

    fn cells(&self, machine: &Roofline) -> Vec<String> {
        let ms = |seconds| units::or_missing(seconds, |s: f64| format!("{:.1} ms", s * 1e3));
        let rate = |bytes: f64| format!("{}/s", units::bytes(bytes as u64));
        let both = (self.uplink_bytes_per_s + self.downlink_bytes_per_s) / 1e9;
        vec![
            self.codec.clone(),
            format!("{:.1}", self.updates_per_s),
            ms(self.latency_p50_s),
            ms(self.latency_p99_s),
            rate(self.uplink_bytes_per_s),
            rate(self.downlink_bytes_per_s),
            format!("{:.2}", both / machine.loopback_gb_s),
            units::or_missing(self.fairness, |ratio| format!("{ratio:.2}")),
            format!("{} / {}", self.rejected, self.starved),
            format!("{:.1} s", self.server_cpu_s),
            format!("{:.1} s", self.clients_cpu_s),
        ]
    }

    fn memory(&self, workers: u32) -> String {
        let memory = &self.memory;
        format!(
            "{}: at most {} in the server ({} before anybody joined; beyond that {:.1} times the parameters), {} in the \
             clients ({:.1} times the parameters a session, gradients included)",
            self.codec,
            units::bytes(memory.server_bytes),
            units::bytes(memory.server_idle_bytes),
            memory.server_times_parameters,
            units::bytes(memory.clients_bytes),
            memory.clients_times_parameters / f64::from(workers)
        )
    }
}

impl Report {
    pub(super) fn new(workers: u32, parameters: u32, (machine, rows): (Roofline, Vec<Row>)) -> Self {
        Self {
            workers,
            parameters,
            machine,
            rows,
        }
    }

    pub(super) fn text(&self) -> String {
        let columns = [
            "codec",
            "updates/s",
            "verdict p50",
            "p99",
            "uplink",
            "downlink",
            "of loopback",
            "fairness",
            "rejected / starved",
            "server CPU",
            "clients' CPU",
        ];
        let mut table = Table::new(&columns);
        self.rows
            .iter()
            .for_each(|row| table.row(row.cells(&self.machine)));
        let seconds = self.rows.first().map_or(0.0, |row| row.seconds);
        let memory: Vec<_> = self.rows.iter().map(|row| row.memory(self.workers)).collect();
        format!(
            "{} workers, {} parameters, {seconds:.1} s\n{}\n\n{}\n\n{}",
            self.workers,
            self.parameters,
            machine(&self.machine),
            table.text(),
            memory.join("\n")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(id: u32, accepted: u64, latencies_us: &[u32]) -> Served {
        Served {
            id,
            accepted,
            rejected: 1,
            pulls: accepted + 1,
            latencies_us: latencies_us.to_vec(),
            seconds: 2.0,
            ..Served::default()
        }
    }

    fn used() -> Used {
        Used {
            server_s: 0.5,
            clients_s: 1.5,
            uplink: 2e9,
            downlink: 4e9,
        }
    }

    #[test]
    fn sessions_are_summed() {
        let row = Row::new(
            "identity",
            &[served(0, 30, &[1000, 3000]), served(1, 20, &[2000])],
            used(),
        );
        assert_eq!(
            (row.accepted, row.rejected, row.pulls, row.starved),
            (50, 2, 52, 0)
        );
        assert_eq!((row.updates_per_s, row.fairness), (25.0, Some(1.5)));
        assert_eq!((row.latency_p50_s, row.latency_p99_s), (Some(0.002), Some(0.003)));
        assert_eq!((row.uplink_bytes_per_s, row.downlink_bytes_per_s), (1e9, 2e9));
    }

    #[test]
    fn a_worker_that_got_nothing_is_starved() {
        let row = Row::new("identity", &[served(0, 3, &[1]), served(1, 0, &[])], used());
        assert_eq!((row.starved, row.fairness), (1, None));
        assert!(serde_json::to_string(&row).unwrap().contains("\"fairness\":null"));
    }

    #[test]
    fn ratios_stand_beside_figures() {
        let machine = Roofline {
            read_gb_s: 20.0,
            copy_gb_s: 16.0,
            axpy_gb_s: 30.0,
            loopback_gb_s: 4.0,
        };
        let row =
            Row::new("identity", &[served(0, 30, &[1000])], used()).with_memory(1000, (500, 3500, 4000));
        let text = Report::new(1, 250, (machine, vec![row])).text();
        let cells = "| identity | 15.0      | 1.0 ms      | 1.0 ms | 1.00 GB/s | 2.00 GB/s | 0.75        | 1.00     | 1 / 0 ";
        assert!(text.contains(cells), "{text}");
        assert!(
            text.contains(
                "at most 3.50 kB in the server (500 B before anybody joined; beyond that 3.0 times"
            )
        );
    }
}
