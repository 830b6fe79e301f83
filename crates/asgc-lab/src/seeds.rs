//! Configurations side by side, each over several seeds.

use crate::spread::Spread;
use crate::summary::Summary;
use crate::table::markdown;
use crate::units::{self, MISSING};
use comfy_table::CellAlignment;

type Figure = fn(&Summary) -> Option<f64>;

/// A column: its title, its name in a CSV file, the figure, and how it is shown.
type Column = (&'static str, &'static str, Figure, fn(f64) -> String);

const COLUMNS: [Column; 9] = [
    (
        "final accuracy",
        "final_accuracy",
        Summary::accuracy,
        units::accuracy,
    ),
    ("final loss", "final_loss", Summary::loss, |loss| {
        format!("{loss:.4}")
    }),
    (
        "time to target",
        "time_to_target_s",
        |s| s.time_to_target(None),
        units::seconds,
    ),
    ("wall time", "wall_s", |s| Some(s.wall_s()), units::seconds),
    ("updates/s", "updates_per_s", Summary::updates_per_s, |rate| {
        format!("{rate:.2}")
    }),
    (
        "payload",
        "payload_bytes",
        |s| Some(s.payload_bytes() as f64),
        |bytes| units::bytes(bytes as u64),
    ),
    (
        "ratio",
        "compression_ratio",
        Summary::compression_ratio,
        |ratio| format!("{ratio:.2}"),
    ),
    ("staleness", "mean_staleness", Summary::mean_staleness, |tau| {
        format!("{tau:.2}")
    }),
    (
        "rejected",
        "rejected_frac",
        Summary::rejected_share,
        units::percent,
    ),
];

/// Runs of one configuration.
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// The configuration's name.
    pub name: String,
    /// One a seed.
    pub runs: Vec<Summary>,
}

impl Group {
    fn spread(&self, figure: Figure) -> Option<Spread> {
        Spread::of(self.runs.iter().map(figure))
    }

    /// As text. A target that only some runs reached says how many did.
    fn cell(&self, figure: Figure, show: fn(f64) -> String) -> String {
        let Some(spread) = self.spread(figure) else {
            return MISSING.into();
        };
        let some = if spread.n < self.runs.len() {
            format!(" ({} of {})", spread.n, self.runs.len())
        } else {
            String::new()
        };
        format!("{}{some}", spread.show(show))
    }
}

/// A row a configuration: mean ± standard deviation over its seeds.
#[must_use]
pub fn table(groups: &[Group]) -> String {
    let mut table = markdown();
    let titles = COLUMNS.iter().map(|(title, ..)| *title);
    table.set_header(["configuration", "seeds"].into_iter().chain(titles));
    for group in groups {
        let cells = COLUMNS
            .iter()
            .map(|&(_, _, figure, show)| group.cell(figure, show));
        let first = [group.name.clone(), group.runs.len().to_string()];
        table.add_row(first.into_iter().chain(cells));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// The same as CSV, in plain units: each figure's mean and, as `NAME_sd`, its standard deviation.
#[must_use]
pub fn csv(groups: &[Group]) -> String {
    let names = COLUMNS
        .iter()
        .flat_map(|(_, name, ..)| [(*name).to_owned(), format!("{name}_sd")]);
    let header = ["configuration".to_owned(), "seeds".to_owned()]
        .into_iter()
        .chain(names);
    let mut text = line(header);
    for group in groups {
        let figures = COLUMNS.iter().flat_map(|&(_, _, figure, _)| {
            let spread = group.spread(figure);
            [spread.map(|s| s.mean), spread.and_then(|s| s.deviation)]
                .map(|v| v.map_or(MISSING.into(), |v| v.to_string()))
        });
        let first = [group.name.clone(), group.runs.len().to_string()];
        text += &line(first.into_iter().chain(figures));
    }
    text
}

/// Names are plain (letters, digits and a few signs), so nothing needs quoting.
fn line(cells: impl Iterator<Item = String>) -> String {
    cells.collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use asgc_core::event::Event;

    fn groups() -> Vec<Group> {
        let better = samples::run().into_iter().map(|event| match event {
            Event::Eval(mut eval) => {
                eval.test_accuracy += 0.02;
                Event::Eval(eval)
            }
            other => other,
        });
        let better = better.collect::<Vec<_>>();
        let runs = [samples::run(), better].map(|events| Summary::from_events(&events));
        let group = |name: &str, runs: &[Summary]| Group {
            name: name.into(),
            runs: runs.to_vec(),
        };
        vec![group("two", &runs), group("one", &runs[..1]), group("none", &[])]
    }

    #[test]
    fn figures_have_means_and_spreads() {
        let table = table(&groups());
        let rows = table.lines().collect::<Vec<_>>();
        assert!(
            rows[2].contains("| two ") && rows[2].contains("87.00 % ± 1.41 %"),
            "\n{table}"
        );
        assert!(
            rows[3].contains("| one ") && rows[3].contains(" 86.00 % |"),
            "\n{table}"
        );
        assert!(
            rows[4].contains("| none ") && rows[4].contains(" - |"),
            "\n{table}"
        );
    }

    #[test]
    fn a_target_that_not_all_reached_says_so() {
        let mut groups = groups();
        groups[0].runs[0].evals.clear();
        assert!(table(&groups).contains("(1 of 2)"), "{}", table(&groups));
    }

    #[test]
    fn a_csv_has_a_column_a_figure_and_its_spread() {
        let text = csv(&groups());
        let lines = text
            .lines()
            .map(|line| line.split(',').collect::<Vec<_>>())
            .collect::<Vec<_>>();
        assert_eq!(
            lines[0][..4],
            ["configuration", "seeds", "final_accuracy", "final_accuracy_sd"]
        );
        assert!(lines.iter().all(|line| line.len() == 2 + 2 * COLUMNS.len()));
        assert_eq!(lines[2][..4], ["one", "1", "0.86", "-"]);
    }
}
