//! The reference's findings, measured again: docs/findings.md, written from logs.

mod claims;
mod evidence;
mod finding;
mod real;
mod steps;

#[cfg(test)]
mod tests;

pub use evidence::{Evidence, Run};
pub use finding::Verdict;

use finding::Finding;
use std::fmt::Write as _;

/// A document and the plot that it shows.
#[derive(Debug, Clone)]
pub struct Document {
    /// Markdown.
    pub text: String,
    /// SVG, for the file that the text names; absent where its runs are.
    pub plot: Option<String>,
}

/// The plot's file, beside the document.
pub const PLOT: &str = "findings_steps.svg";

const HEAD: &str = "# The reference's findings, measured again

Written by `make findings` from the logs in `results/findings`; nothing in here was typed in. Each entry says what the
reference system's authors found (one seed, on their machine), what we measured (mean ± standard deviation over seeds, in
simulated runs: [simulation](simulation.md)), and whether it holds. Differences and ratios are taken seed by seed.

Fashion-MNIST runs in full: the reference's files, a step of 45 ms as on its authors' machine. CIFAR-10 is a JPEG copy of
the data set, and `resnet8` (78,042 parameters, batches of 32, 1,200 updates) stands for ResNet-18, which two
cores would train for days; delays and updates a second are the reference's, thin links are scaled so that an uncompressed
push takes as long as ResNet-18's at 250 Mbit/s. So of CIFAR-10 orders and signs can be compared, accuracies cannot;
and where a table names a single seed, a difference of less than a point may be chance.
";

/// Puts the document together.
#[must_use]
pub fn document(evidence: &Evidence) -> Document {
    let findings = claims::all(evidence);
    let mut text = HEAD.to_owned();
    text += "\n| finding | verdict |\n|---|---|\n";
    for finding in &findings {
        let _ = writeln!(
            text,
            "| [{0}](#{1}) {2} | {3} |",
            finding.id,
            finding.id.to_lowercase(),
            finding.claim,
            finding.verdict
        );
    }
    let steps = steps::show(evidence);
    for finding in &findings {
        entry(&mut text, finding);
        if let (true, Some((table, _))) = (finding.id == "F1", &steps) {
            text += "\nThe same with other steps (`asgc matrix configs/findings/steps.toml`; one seed, evaluated every 50 updates):\n\n";
            let _ = writeln!(
                text,
                "{table}\n\n![gain of asynchrony against the length of a step]({PLOT})"
            );
        }
    }
    text += "\n## Success criteria\n\n| criterion | measured | verdict |\n|---|---|---|\n";
    for (criterion, measured, verdict) in claims::criteria(evidence) {
        let _ = writeln!(text, "| {criterion} | {measured} | {verdict} |");
    }
    text += &real::section(evidence);
    Document {
        text,
        plot: steps.map(|(_, plot)| plot),
    }
}

fn entry(text: &mut String, finding: &Finding) {
    let Finding {
        id,
        claim,
        measured,
        verdict,
        remark,
        files,
    } = finding;
    let commands = files
        .split(' ')
        .map(|file| format!("`asgc matrix {file}`"))
        .collect::<Vec<_>>();
    let _ = write!(
        text,
        "\n## {id}\n\n**Claim.** {claim}\n\n**Measured** by {}.\n\n{measured}\n\n**Verdict:** {verdict}.{}{remark}\n",
        commands.join(" and "),
        if remark.is_empty() { "" } else { " " }
    );
}
