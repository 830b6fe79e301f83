//! What the measurements came to.

use crate::bench::roofline::Roofline;
use crate::bench::table::{Table, machine};
use serde::Serialize;

/// The whole result.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    parameters: u32,
    machine: Roofline,
    rows: Vec<Row>,
}

/// One kind of work; medians over rounds.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) gb_s: f64,
    /// Against raw TCP of the same round.
    pub(super) ratio: f64,
    pub(super) client_s_per_gb: f64,
    pub(super) server_s_per_gb: f64,
    pub(super) cpu_s_per_gb: f64,
    /// CPU time against that of raw TCP in the same round.
    pub(super) cpu_ratio: f64,
}

impl Report {
    pub(super) fn new(parameters: u32, machine: Roofline, rows: Vec<Row>) -> Self {
        Self {
            parameters,
            machine,
            rows,
        }
    }

    pub(super) fn table(&self) -> String {
        let columns = [
            "",
            "GB/s",
            "of raw TCP",
            "of a copy",
            "CPU s/GB",
            "of raw TCP's",
            "client",
            "server",
        ];
        let mut table = Table::new(&columns);
        for row in &self.rows {
            // Raw TCP has both ends in one process.
            let both = row.server_s_per_gb == 0.0;
            let end = |seconds: f64| {
                if both {
                    "-".to_owned()
                } else {
                    format!("{seconds:.3}")
                }
            };
            table.row(vec![
                row.name.clone(),
                format!("{:.2}", row.gb_s),
                format!("{:.2}", row.ratio),
                format!("{:.2}", row.gb_s / self.machine.copy_gb_s),
                format!("{:.3}", row.cpu_s_per_gb),
                format!("{:.2}", row.cpu_ratio),
                end(row.client_s_per_gb),
                end(row.server_s_per_gb),
            ]);
        }
        format!(
            "{} parameters, {:.1} MB\n{}\n\n{}",
            self.parameters,
            4e-6 * f64::from(self.parameters),
            machine(&self.machine),
            table.text()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_stand_beside_rates() {
        let machine = Roofline {
            read_gb_s: 20.0,
            copy_gb_s: 16.0,
            axpy_gb_s: 30.0,
            loopback_gb_s: 4.0,
        };
        let row = |name: &str, gb_s: f64, server_s_per_gb: f64| Row {
            name: name.into(),
            gb_s,
            ratio: gb_s / 4.0,
            client_s_per_gb: 0.2,
            server_s_per_gb,
            cpu_s_per_gb: 0.2 + server_s_per_gb,
            cpu_ratio: 1.0 + server_s_per_gb,
        };
        let report = Report::new(
            1000,
            machine,
            vec![row("raw TCP", 4.0, 0.0), row("pull", 3.2, 0.1)],
        );
        let expect = "\
1000 parameters, 0.0 MB
this machine: read 20.0 GB/s, copy 16.0, axpy 30.0, loopback 4.00

|         | GB/s | of raw TCP | of a copy | CPU s/GB | of raw TCP's | client | server |
|---------|------|------------|-----------|----------|--------------|--------|--------|
| raw TCP | 4.00 | 1.00       | 0.25      | 0.200    | 1.00         | -      | -      |
| pull    | 3.20 | 0.80       | 0.20      | 0.300    | 1.10         | 0.200  | 0.100  |";
        assert_eq!(report.table(), expect);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["rows"][1]["ratio"], 0.8);
        assert_eq!(json["machine"]["copy_gb_s"], 16.0);
    }
}
