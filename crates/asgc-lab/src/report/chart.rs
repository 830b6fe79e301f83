//! Figures as SVG.

use super::figure::{Figure, Series, Style};
use super::theme::Ink;
use plotters::coord::Shift;
use plotters::prelude::*;

/// Pixels of a chart; a legend stands to its right.
pub(super) const SIZE: (u32, u32) = (960, 480);
const LEGEND: u32 = 262;

pub(super) type Failure = DrawingAreaErrorKind<std::io::Error>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub(super) fn text(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&Ink::Text.marker())
}

/// The figure in marker colours (see the theme).
pub(super) fn draw(figure: &Figure) -> Result<String, Failure> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        match bounds(figure) {
            Some(bounds) => {
                let (plot, legend) = root.split_horizontally(SIZE.0 - LEGEND);
                axes_and_lines(figure, &plot, bounds)?;
                labels(&figure.series, &legend)?;
            }
            None => nothing(figure, &root)?,
        }
        root.present()?;
    }
    Ok(svg)
}

fn nothing(figure: &Figure, root: &Area<'_>) -> Result<(), Failure> {
    let words = format!("{}: these logs say nothing about it", figure.title);
    root.draw(&Text::new(words, (40, SIZE.1 as i32 / 2), text(18)))
}

/// Of both axes, with room around the points; `None` without points.
fn bounds(figure: &Figure) -> Option<[(f64, f64); 2]> {
    let points = figure.series.iter().flat_map(|series| &series.points);
    let all = points.copied().collect::<Vec<_>>();
    let level = figure.level.filter(|_| !all.is_empty());
    let x = range(all.iter().map(|(x, _)| *x))?;
    let y = range(all.iter().map(|(_, y)| *y).chain(level))?;
    Some([x, y])
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        (low, high) = (low.min(value), high.max(value));
    }
    if low > high {
        return None;
    }
    // From zero where that is near.
    if low > 0.0 && low < 0.3 * high {
        low = 0.0;
    }
    let room = match high - low {
        span if span > 0.0 => 0.03 * span,
        _ => 0.05 * high.abs().max(1.0),
    };
    let below = if low == 0.0 { 0.0 } else { room };
    Some((low - below, high + room))
}

fn axes_and_lines(figure: &Figure, plot: &Area<'_>, [x, y]: [(f64, f64); 2]) -> Result<(), Failure> {
    let mut chart = ChartBuilder::on(plot)
        .margin(14)
        .x_label_area_size(52)
        .y_label_area_size(76)
        .build_cartesian_2d(x.0..x.1, y.0..y.1)?;
    let number = |value: &f64| tick(*value);
    chart
        .configure_mesh()
        .axis_style(Ink::Text.marker())
        .bold_line_style(Ink::Grid.marker())
        .light_line_style(TRANSPARENT)
        .label_style(text(15))
        .axis_desc_style(text(16))
        .x_desc(figure.axes[0])
        .y_desc(figure.axes[1])
        .x_labels(8)
        .y_labels(8)
        .x_label_formatter(&number)
        .y_label_formatter(&number)
        .draw()?;
    if let Some(level) = figure.level {
        let style = Ink::Text.marker().stroke_width(1);
        chart.draw_series(DashedLineSeries::new([(x.0, level), (x.1, level)], 6, 5, style))?;
    }
    for series in &figure.series {
        let colour = Ink::Series(series.colour).marker();
        let width = if series.label.is_empty() { 1 } else { 2 };
        chart.draw_series(LineSeries::new(joined(series), colour.stroke_width(width)))?;
        if series.points.len() <= 60 {
            let dots = series
                .points
                .iter()
                .map(|&point| Circle::new(point, 3, colour.filled()));
            chart.draw_series(dots)?;
        }
    }
    Ok(())
}

/// Long series are thinned out; then steps get their corners.
fn joined(series: &Series) -> Vec<(f64, f64)> {
    let points = thin(&series.points);
    if series.style == Style::Line {
        return points;
    }
    let mut corners = Vec::with_capacity(2 * points.len());
    for &(x, y) in &points {
        corners.extend(corners.last().map(|&(_, before)| (x, before)));
        corners.push((x, y));
    }
    corners
}

/// Stretches that a series is cut into when it is thinned out.
const STRETCHES: usize = 300;

/// Of each stretch the lowest and the highest point, in order: extremes stay.
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= 2 * STRETCHES {
        return points.to_vec();
    }
    let mut kept = Vec::with_capacity(2 * STRETCHES);
    for stretch in points.chunks(points.len().div_ceil(STRETCHES)) {
        let by_height = |a: &(usize, &(f64, f64)), b: &(usize, &(f64, f64))| a.1.1.total_cmp(&b.1.1);
        let low = stretch.iter().enumerate().min_by(by_height);
        let high = stretch.iter().enumerate().max_by(by_height);
        let mut both = low.into_iter().chain(high).collect::<Vec<_>>();
        both.sort_by_key(|(place, _)| *place);
        both.dedup_by_key(|(place, _)| *place);
        kept.extend(both.into_iter().map(|(_, point)| *point));
    }
    kept
}

fn labels(series: &[Series], legend: &Area<'_>) -> Result<(), Failure> {
    let named = series
        .iter()
        .filter(|series| !series.label.is_empty() && !series.points.is_empty())
        .collect::<Vec<_>>();
    let (height, most) = (22, (SIZE.1 as usize - 40) / 22 - 1);
    for (row, series) in named.iter().take(most).enumerate() {
        let y = 24 + row as i32 * height;
        let ink = Ink::Series(series.colour).marker();
        legend.draw(&PathElement::new([(0, y), (22, y)], ink.stroke_width(3)))?;
        legend.draw(&Text::new(shorten(&series.label, 34), (28, y - 7), text(13)))?;
    }
    if named.len() > most {
        let words = format!("and {} more", named.len() - most);
        legend.draw(&Text::new(words, (30, 17 + most as i32 * height), text(14)))?;
    }
    Ok(())
}

/// At most so many letters, and none that XML does not know: names come from files that anybody may have written.
pub(super) fn shorten(label: &str, letters: usize) -> String {
    let plain = |letter: char| match letter {
        '\u{fffe}' | '\u{ffff}' => ' ',
        letter if letter.is_control() => ' ',
        letter => letter,
    };
    let cut = label.chars().count() > letters;
    let kept = if cut { letters - 1 } else { letters };
    label
        .chars()
        .take(kept)
        .map(plain)
        .chain(cut.then_some('…'))
        .collect()
}

/// A number on an axis: as short as it can be said.
pub(super) fn tick(value: f64) -> String {
    let magnitude = value.abs();
    let digits = match magnitude {
        0.0 => return "0".into(),
        m if m >= 100.0 => 0,
        m if m >= 10.0 => 1,
        m if m >= 1.0 => 2,
        m if m >= 0.01 => 3,
        _ => return format!("{value:.0e}"),
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 1500.0, 12.5, 12.0, 0.25, 0.05, 0.0001, -3.1].map(tick);
        assert_eq!(shown, ["0", "1500", "12.5", "12", "0.25", "0.05", "1e-4", "-3.1"]);
    }

    #[test]
    fn thinning_keeps_ends_of_the_scale() {
        let mut points = (0..10_000)
            .map(|i| (f64::from(i), f64::from(i % 7)))
            .collect::<Vec<_>>();
        points[5_003].1 = 99.0;
        points[7_001].1 = -99.0;
        let kept = thin(&points);
        assert!(kept.len() <= 2 * STRETCHES && kept.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(kept.contains(&(5_003.0, 99.0)) && kept.contains(&(7_001.0, -99.0)));
        assert_eq!(thin(&points[..10]), points[..10]);
    }

    #[test]
    fn steps_have_corners() {
        let series = Series {
            label: "x".into(),
            colour: 0,
            style: Style::Steps,
            points: vec![(0.0, 1.0), (2.0, 5.0)],
        };
        assert_eq!(joined(&series), [(0.0, 1.0), (2.0, 1.0), (2.0, 5.0)]);
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(shorten("kürzer", 6), "kürzer");
        assert_eq!(shorten("kürzeren", 6), "kürze…");
        assert_eq!(shorten("a\u{1}b\u{ffff}", 6), "a b ");
    }
}
