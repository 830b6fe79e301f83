//! A small line chart in characters: braille dots, two by four a character.

/// Rows of characters of a chart.
const ROWS: usize = 6;

/// Columns for the labels of the axis.
const LABEL: usize = 10;

/// The dots of a braille character, by row and column; the code points of Unicode's block U+2800.
const DOTS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

/// How points are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Join {
    /// Straight from one to the next.
    Line,
    /// Each holds until the next.
    Step,
}

/// A chart of `points` (seconds, value), at most `width` columns wide; empty for fewer than two points.
pub(super) fn chart(
    title: &str,
    points: &[(f64, f64)],
    join: Join,
    (width, show): (usize, &dyn Fn(f64) -> String),
) -> String {
    let finite = points
        .iter()
        .copied()
        .filter(|(x, y)| x.is_finite() && y.is_finite());
    let points = finite.collect::<Vec<_>>();
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return String::new();
    };
    let columns = width.saturating_sub(LABEL + 2);
    if points.len() < 2 || columns < 4 || last.0 <= first.0 {
        return String::new();
    }
    let low = points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let high = points
        .iter()
        .map(|point| point.1)
        .fold(f64::NEG_INFINITY, f64::max);
    let height = if high > low { high - low } else { 1.0 };
    let across = |x: f64| (x - first.0) / (last.0 - first.0) * (2 * columns - 1) as f64;
    let up = |y: f64| (y - low) / height * (4 * ROWS - 1) as f64;
    let dots = points
        .iter()
        .map(|(x, y)| (across(*x), up(*y)))
        .collect::<Vec<_>>();
    let cells = draw(&dots, join, columns);
    let mut text = title.to_owned();
    for (row, line) in cells.iter().enumerate() {
        let label = match row {
            0 => show(high),
            row if row + 1 == ROWS => show(low),
            _ => String::new(),
        };
        text.push_str(&format!(
            "\n{label:>LABEL$} │{}",
            line.iter().collect::<String>().trim_end()
        ));
    }
    let (from, to) = (format!("{:.0} s", first.0), format!("{:.0} s", last.0));
    if from.len() + to.len() >= columns {
        return String::new();
    }
    let gap = columns - from.len();
    text.push_str(&format!("\n{:>LABEL$} └{from}{to:>gap$}", ""));
    text
}

fn draw(dots: &[(f64, f64)], join: Join, columns: usize) -> Vec<Vec<char>> {
    let mut cells = vec![vec![0u32; columns]; ROWS];
    let mut set = |x: f64, y: f64| {
        let (x, y) = (
            x.round() as usize,
            (4 * ROWS - 1).saturating_sub(y.round() as usize),
        );
        if let Some(cell) = cells.get_mut(y / 4).and_then(|row| row.get_mut(x / 2)) {
            *cell |= DOTS[y % 4][x % 2];
        }
    };
    for pair in dots.windows(2) {
        let ((x1, y1), (x2, y2)) = (pair[0], pair[1]);
        let steps = (x2 - x1).abs().max((y2 - y1).abs()).ceil().max(1.0) as usize;
        for step in 0..=steps {
            let share = step as f64 / steps as f64;
            match join {
                Join::Line => set(x1 + share * (x2 - x1), y1 + share * (y2 - y1)),
                Join::Step => {
                    set(x1 + share * (x2 - x1), y1);
                    set(x2, y1 + share * (y2 - y1));
                }
            }
        }
    }
    let glyph = |&dots: &u32| match dots {
        0 => ' ',
        dots => char::from_u32(0x2800 + dots).unwrap_or(' '),
    };
    cells.iter().map(|row| row.iter().map(glyph).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_rise_goes_from_corner_to_corner() {
        let points = [(0.0, 0.0), (10.0, 1.0)];
        let text = chart("t", &points, Join::Line, (30, &|y| format!("{y:.1}")));
        let lines = text.lines().collect::<Vec<_>>();
        assert_eq!(lines.len(), ROWS + 2);
        assert!(
            lines[1].starts_with("       1.0 │") && lines[1].ends_with('⠊'),
            "{text}"
        );
        assert!(lines[ROWS].starts_with("       0.0 │⡠"), "{text}");
        assert!(lines[ROWS + 1].ends_with("10 s"), "{text}");
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let draw = |points: &[(f64, f64)]| chart("t", points, Join::Step, (40, &|y| y.to_string()));
        assert_eq!(draw(&[]), "");
        assert_eq!(draw(&[(1.0, 2.0)]), "");
        assert_eq!(draw(&[(1.0, f64::NAN), (2.0, 1.0)]), "");
    }

    proptest! {
        #[test]
        fn the_width_is_kept(values in prop::collection::vec(-1e9..1e9f64, 0..50), width in 0usize..200, steps: bool) {
            let points = (0..).map(f64::from).zip(values).collect::<Vec<_>>();
            let join = if steps { Join::Step } else { Join::Line };
            let text = chart("t", &points, join, (width, &|y| format!("{y:.1e}")));
            prop_assert!(text.lines().all(|line| line.chars().count() <= width.max(1)), "{text}");
        }
    }
}
