//! Runs side by side, drawn: a page, its plots as files, and a table for other programs.
//!
//! | room | what lives there |
//! |---|---|
//! | `run` | a run, as a fold over its events |
//! | `figure` | what is drawn, as numbers |
//! | `chart`, `timeline` | figures and timelines as SVG |
//! | `theme` | colours, light and dark |
//! | `page`, `csv`, `png` | the files |
//!
//! A plot is drawn once; page, SVG file and PNG file are made of the same drawing.

mod chart;
mod csv;
mod figure;
mod page;
mod png;
mod run;
mod theme;
mod timeline;

#[cfg(test)]
mod tests;

pub use png::PngError;
pub use run::Run;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Timelines of runs beyond these are left out of the page.
const TIMELINES: usize = 8;

/// A plot in marker colours.
#[derive(Debug, Clone)]
struct Drawn {
    id: String,
    title: String,
    note: String,
    svg: String,
}

/// A report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A file cannot be written.
    #[error("{}: cannot be written: {source}", .path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A plot could not be drawn.
    #[error("the plot {id} cannot be drawn: {why}")]
    Draw {
        /// Which.
        id: String,
        /// Why.
        why: String,
    },
    /// The table could not be made.
    #[error("the summary cannot be made: {0}")]
    Csv(#[from] ::csv::Error),
}

/// Writes `report.html`, `summary.csv`, and each plot as SVG and PNG to the folder `out`; returns the files, the page
/// first. `target` is an accuracy (fraction) to ask about instead of each run's own.
///
/// # Errors
/// When a file cannot be written. What a log does not tell is no error: its plot says so.
pub fn write(runs: &[Run], out: &Path, target: Option<f64>) -> Result<Vec<PathBuf>, ReportError> {
    fs::create_dir_all(out).map_err(at(out))?;
    let drawn = draw(runs, target)?;
    let mut files = Vec::new();
    let mut put = |name: String, bytes: &[u8]| {
        let path = out.join(name);
        fs::write(&path, bytes).map_err(at(&path))?;
        files.push(path);
        Ok::<_, ReportError>(())
    };
    put("report.html".into(), page::page(runs, &drawn, target).as_bytes())?;
    put("summary.csv".into(), &csv::csv(runs, target)?)?;
    for drawn in &drawn {
        let svg = theme::for_file(&drawn.svg);
        put(format!("{}.svg", drawn.id), svg.as_bytes())?;
        let png = png::png(&svg).map_err(|error| failed(&drawn.id, &error))?;
        put(format!("{}.png", drawn.id), &png)?;
    }
    Ok(files)
}

fn at(path: &Path) -> impl Fn(io::Error) -> ReportError {
    move |source| ReportError::Write {
        path: path.to_owned(),
        source,
    }
}

fn failed(id: &str, why: &dyn std::fmt::Display) -> ReportError {
    ReportError::Draw {
        id: id.to_owned(),
        why: why.to_string(),
    }
}

fn draw(runs: &[Run], target: Option<f64>) -> Result<Vec<Drawn>, ReportError> {
    let mut drawn = Vec::new();
    let level = target.or_else(|| runs.iter().find_map(|run| run.summary.target()));
    for figure in figure::figures(runs, level) {
        drawn.push(Drawn {
            svg: chart::draw(&figure).map_err(|error| failed(figure.id, &error))?,
            id: figure.id.into(),
            title: figure.title.into(),
            note: figure.note.into(),
        });
    }
    for (number, run) in (1..).zip(first_of_groups(runs).take(TIMELINES)) {
        let id = format!("timeline_{number}");
        drawn.push(Drawn {
            svg: timeline::draw(run).map_err(|error| failed(&id, &error))?,
            id,
            title: format!("What workers did when: {}", run.label),
            note: "A window of the run, a row a worker. What no bar covers is waiting for a verdict, or reading a batch.".into(),
        });
    }
    Ok(drawn)
}

/// A run of each group: further seeds look alike.
fn first_of_groups(runs: &[Run]) -> impl Iterator<Item = &Run> {
    let mut seen = std::collections::BTreeSet::new();
    runs.iter().filter(move |run| seen.insert(run.group().to_owned()))
}

/// A line chart of its own as an SVG file: titles, axes with units, and series by name.
///
/// # Errors
/// When it cannot be drawn.
pub fn chart(
    title: &'static str,
    axes: [&'static str; 2],
    series: Vec<(String, Vec<(f64, f64)>)>,
) -> Result<String, ReportError> {
    let line = |(colour, (label, points))| figure::Series {
        label,
        colour,
        style: figure::Style::Line,
        points,
    };
    let figure = figure::Figure {
        id: "chart",
        title,
        axes,
        note: "",
        series: series.into_iter().enumerate().map(line).collect(),
        level: None,
    };
    let svg = chart::draw(&figure).map_err(|error| failed(title, &error))?;
    Ok(theme::for_file(&svg))
}
