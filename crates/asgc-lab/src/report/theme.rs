//! Colours: markers while a chart is drawn, real ones when it is put somewhere.
//!
//! Charts are drawn once, in marker colours. In the page these become variables of its style sheet, which has a light
//! and a dark set; in files they become the light set. The palette follows Okabe and Ito (2008), which people with
//! colour-blindness can tell apart, darkened or lightened until each has a contrast of 3 with its ground.

use plotters::style::RGBColor;

/// Series colours on white, and on the dark ground.
const SERIES: [(&str, &str); 8] = [
    ("#0072b2", "#4da9e8"),
    ("#d55e00", "#ff8a3d"),
    ("#008a65", "#2cc79a"),
    ("#b5588f", "#e79cc4"),
    ("#8f6a00", "#e6b422"),
    ("#2f8fc4", "#8fd3ff"),
    ("#6b3fa0", "#b98be0"),
    ("#6b6b6b", "#b0b0b0"),
];

/// Text, grid, and the parts of a timeline: waiting, held, computing, sending, rejected.
const OTHERS: [(&str, &str, &str); 7] = [
    ("text", "#1f2328", "#e6e6e6"),
    ("grid", "#d8dce0", "#3a3f45"),
    ("fetch", "#56b4e9", "#56b4e9"),
    ("held", "#b9bec4", "#565c63"),
    ("compute", "#009e73", "#2cc79a"),
    ("push", "#e69f00", "#e6b422"),
    ("rejected", "#c1121f", "#ff6b6b"),
];

/// A thing that has a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Series(usize),
    Text,
    Grid,
    Fetch,
    Held,
    Compute,
    Push,
    Rejected,
}

impl Ink {
    fn number(self) -> u8 {
        match self {
            Self::Series(i) => (i % SERIES.len()) as u8,
            Self::Text => 100,
            Self::Grid => 101,
            Self::Fetch => 102,
            Self::Held => 103,
            Self::Compute => 104,
            Self::Push => 105,
            Self::Rejected => 106,
        }
    }

    /// The marker that a chart is drawn with.
    pub(super) fn marker(self) -> RGBColor {
        RGBColor(1, self.number(), 1)
    }
}

/// How plotters writes the marker with this number.
fn written(number: u8) -> String {
    format!("#01{number:02X}01")
}

/// Number, name, light and dark of all colours.
fn all() -> impl Iterator<Item = (u8, String, &'static str, &'static str)> {
    let series = (0..)
        .zip(SERIES)
        .map(|(i, (light, dark))| (i, format!("s{i}"), light, dark));
    let others = (100..)
        .zip(OTHERS)
        .map(|(i, (name, light, dark))| (i, name.to_owned(), light, dark));
    series.chain(others)
}

/// A chart for a file: light, on white.
pub(super) fn for_file(svg: &str) -> String {
    let coloured = all().fold(svg.to_owned(), |svg, (number, _, light, _)| {
        svg.replace(&written(number), light)
    });
    // Behind everything else.
    let ground = "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>";
    match coloured.find('>') {
        Some(end) => format!("{}{ground}{}", &coloured[..=end], &coloured[end + 1..]),
        None => coloured,
    }
}

/// A chart for the page: its style sheet decides.
pub(super) fn for_page(svg: &str) -> String {
    all().fold(svg.to_owned(), |svg, (number, name, ..)| {
        svg.replace(&written(number), &format!("var(--{name})"))
    })
}

/// The variables of the style sheet.
pub(super) fn variables(dark: bool) -> String {
    let variable = |(_, name, light, night): (u8, String, &str, &str)| {
        format!("--{name}:{};", if dark { night } else { light })
    };
    all().map(variable).collect()
}
