//! What each trainer did when: a window of a run as bars.

use super::chart::{Failure, SIZE, shorten, text, tick};
use super::run::{Run, Step};
use super::theme::Ink;
use plotters::prelude::*;

/// Trainers that have a row.
const ROWS: usize = 12;

/// Steps of the busiest trainer that a window shows.
const WINDOW_STEPS: usize = 14;

/// What is drawn, and what it means.
const LEGEND: [(Ink, &str); 5] = [
    (Ink::Fetch, "fetching parameters"),
    (Ink::Held, "held back by the server"),
    (Ink::Compute, "computing"),
    (Ink::Push, "encoding and sending"),
    (Ink::Rejected, "rejected"),
];

/// From when to when, in seconds: a few steps, after the first ones.
pub(super) fn window(run: &Run) -> Option<(f64, f64)> {
    let busiest = run.steps.values().max_by_key(|steps| steps.len())?;
    let from = busiest.len().saturating_sub(WINDOW_STEPS + 1).min(4);
    let (first, last) = (
        busiest.get(from)?,
        busiest.get((from + WINDOW_STEPS).min(busiest.len() - 1))?,
    );
    // A slow trainer should be seen through one of its steps.
    let slowest = run
        .steps
        .values()
        .filter_map(|steps| steps.first())
        .map(|step| step.compute);
    let span = (last.end - first.end).max(1.5 * slowest.fold(0.0, f64::max));
    (span > 0.0).then_some((first.end, first.end + span))
}

/// The run's window in marker colours.
pub(super) fn draw(run: &Run) -> Result<String, Failure> {
    let rows = run.steps.len().min(ROWS);
    let size = (SIZE.0, 110 + 34 * rows as u32);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        match window(run) {
            Some((from, to)) => bars(run, &root, (from, to))?,
            None => root.draw(&Text::new("no trainer pushed twice", (40, 40), text(18)))?,
        }
        root.present()?;
    }
    Ok(svg)
}

fn bars(
    run: &Run,
    root: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    (from, to): (f64, f64),
) -> Result<(), Failure> {
    let (legend, plot) = root.split_vertically(34);
    let rows = run.steps.len().min(ROWS);
    for (i, (ink, words)) in LEGEND.iter().enumerate() {
        let x = 76 + i as i32 * 176;
        legend.draw(&Rectangle::new([(x, 12), (x + 14, 26)], ink.marker().filled()))?;
        legend.draw(&Text::new(*words, (x + 20, 12), text(14)))?;
    }
    let mut chart = ChartBuilder::on(&plot)
        .margin_right(16)
        .x_label_area_size(52)
        .y_label_area_size(76)
        .build_cartesian_2d(from..to, 0.0..rows as f64)?;
    chart
        .configure_mesh()
        .axis_style(Ink::Text.marker())
        .disable_y_mesh()
        .disable_y_axis()
        .bold_line_style(Ink::Grid.marker())
        .light_line_style(TRANSPARENT)
        .label_style(text(15))
        .axis_desc_style(text(16))
        .x_desc("time since the start (s)")
        .x_label_formatter(&|value| tick(*value))
        .draw()?;
    for (row, (worker, steps)) in run.steps.iter().take(rows).enumerate() {
        // The first worker on top.
        let bottom = (rows - 1 - row) as f64;
        let middle = chart.backend_coord(&(from, bottom + 0.5)).1;
        root.draw(&Text::new(
            shorten(&format!("worker {worker}"), 10),
            (4, middle - 7),
            text(14),
        ))?;
        for step in steps {
            for (ink, begin, end) in parts(step) {
                let (begin, end) = (begin.clamp(from, to), end.clamp(from, to));
                if end > begin {
                    let corners = [(begin, bottom + 0.14), (end, bottom + 0.86)];
                    chart.draw_series([Rectangle::new(corners, ink.marker().filled())])?;
                }
            }
        }
    }
    Ok(())
}

/// A step backwards from its verdict: sent, computed, held, fetched.
fn parts(step: &Step) -> [(Ink, f64, f64); 4] {
    let sent = step.end - step.push;
    let computed = sent - step.compute;
    let asked = computed - step.fetch;
    let held = step.held.min(step.fetch);
    let ink = if step.rejected { Ink::Rejected } else { Ink::Push };
    // A push that takes no time would not be seen; a rejected one must be.
    let end = if step.rejected {
        step.end + 0.02 * step.compute
    } else {
        step.end
    };
    [
        (Ink::Fetch, asked + held, computed),
        (Ink::Held, asked, asked + held),
        (Ink::Compute, computed, sent),
        (ink, sent, end),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_told_backwards_from_its_verdict() {
        let step = Step {
            fetch: 3.0,
            held: 2.0,
            compute: 4.0,
            end: 10.0,
            push: 1.0,
            rejected: false,
        };
        let expected = [
            (Ink::Fetch, 4.0, 5.0),
            (Ink::Held, 2.0, 4.0),
            (Ink::Compute, 5.0, 9.0),
            (Ink::Push, 9.0, 10.0),
        ];
        assert_eq!(parts(&step), expected);
    }
}
