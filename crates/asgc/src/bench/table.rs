//! Figures in columns: a Markdown table that reads well as it is.

use super::roofline::Roofline;

/// Rows of equal length.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(columns: &[&str]) -> Self {
        let head = columns.iter().map(|name| (*name).to_owned()).collect();
        Self { rows: vec![head] }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(super) fn text(&self) -> String {
        let columns = self.rows[0].len();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row
                .iter()
                .zip(&widths)
                .map(|(cell, &width)| format!(" {cell:width$} |"));
            format!("|{}", cells.collect::<String>())
        };
        let rule = widths.iter().map(|width| format!("{}|", "-".repeat(width + 2)));
        let mut lines = vec![line(&self.rows[0]), format!("|{}", rule.collect::<String>())];
        lines.extend(self.rows.iter().skip(1).map(line));
        lines.join("\n")
    }
}

/// What the machine carries, in one line.
pub(super) fn machine(roofline: &Roofline) -> String {
    format!(
        "this machine: read {:.1} GB/s, copy {:.1}, axpy {:.1}, loopback {:.2}",
        roofline.read_gb_s, roofline.copy_gb_s, roofline.axpy_gb_s, roofline.loopback_gb_s
    )
}
