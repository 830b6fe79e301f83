//! One finding, and how it is said.

use super::evidence::{Evidence, Figure};
use crate::spread::Spread;
use crate::units::MISSING;
use std::fmt;

/// Whether a claim holds here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// As claimed.
    Holds,
    /// In part, or by less.
    Partly,
    /// Not here.
    Fails,
    /// The runs that it needs are not there.
    Unmeasured,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Holds => "holds",
            Self::Partly => "holds in part",
            Self::Fails => "does not hold here",
            Self::Unmeasured => "not measured",
        })
    }
}

pub(super) fn judge(holds: Option<bool>) -> Verdict {
    match holds {
        Some(true) => Verdict::Holds,
        Some(false) => Verdict::Fails,
        None => Verdict::Unmeasured,
    }
}

/// A claim and what became of it.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    pub(super) id: &'static str,
    pub(super) claim: &'static str,
    /// Markdown.
    pub(super) measured: String,
    pub(super) verdict: Verdict,
    /// Why ours differs, or what to keep in mind; may be empty.
    pub(super) remark: &'static str,
    /// The matrices whose runs it needs.
    pub(super) files: &'static str,
}

/// A figure with its spread, in two digits.
pub(super) fn points(spread: Option<Spread>) -> String {
    spread.map_or(MISSING.into(), |spread| spread.to_string())
}

/// A Markdown table: a row a configuration.
pub(super) fn table(evidence: &Evidence, groups: &[&str], figures: &[(&str, Figure)]) -> String {
    let mut text = String::from("| configuration | seeds |");
    figures
        .iter()
        .for_each(|(title, _)| text += &format!(" {title} |"));
    text += "\n|---|---|";
    text += &"---:|".repeat(figures.len());
    for group in groups {
        let seeds = evidence
            .seeds(group)
            .iter()
            .map(u64::to_string)
            .collect::<Vec<_>>()
            .join(", ");
        text += &format!(
            "\n| {group} | {} |",
            if seeds.is_empty() { MISSING } else { &seeds }
        );
        for (_, figure) in figures {
            text += &format!(" {} |", points(evidence.spread(group, *figure)));
        }
    }
    text
}
