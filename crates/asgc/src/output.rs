//! What goes to the terminal: results to standard output, everything else to standard error.
//!
//! A closed pipe is no reason to stop a run, so failures to write are ignored.

use asgc_lab::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Between two lines of progress where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// A result, to standard output.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// A remark, to standard error, each line with the program's name.
pub(crate) fn note(text: &str) {
    let mut stderr = std::io::stderr().lock();
    for line in text.lines() {
        let _ = writeln!(stderr, "asgc: {line}");
    }
}

/// Where a run's progress and remarks go.
#[derive(Debug)]
pub(crate) enum Screen {
    /// A bar on a terminal.
    Bar(ProgressBar),
    /// A line now and then.
    Lines(Option<Instant>),
    /// Remarks only.
    Quiet,
}

impl Screen {
    /// A bar where standard error is a terminal, else lines.
    pub(crate) fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::Lines(None);
        }
        let bar = ProgressBar::new(0);
        // The template is a constant; were it wrong, the plain bar would still do.
        if let Ok(style) = ProgressStyle::with_template("{elapsed_precise} {bar:30} {pos}/{len} {wide_msg}") {
            bar.set_style(style);
        }
        Self::Bar(bar)
    }

    /// Shows how the run is doing; lines come at most every few seconds.
    pub(crate) fn show(&mut self, progress: &Progress) {
        match self {
            Self::Bar(bar) => {
                bar.set_length(progress.max_updates);
                bar.set_position(progress.version);
                bar.set_message(progress.to_string());
            }
            Self::Lines(last) if last.is_none_or(|last| last.elapsed() >= LINE_EVERY) => {
                *last = Some(Instant::now());
                note(&format!(
                    "version {}/{}, {progress}",
                    progress.version, progress.max_updates
                ));
            }
            Self::Lines(_) | Self::Quiet => {}
        }
    }

    /// As [`Screen::remark`], but not on a quiet screen.
    pub(crate) fn inform(&self, text: &str) {
        if !matches!(self, Self::Quiet) {
            self.remark(text);
        }
    }

    /// A remark that a bar must not overwrite.
    pub(crate) fn remark(&self, text: &str) {
        match self {
            Self::Bar(bar) => bar.suspend(|| note(text)),
            Self::Lines(_) | Self::Quiet => note(text),
        }
    }

    /// No more progress comes.
    pub(crate) fn finish(&self) {
        if let Self::Bar(bar) = self {
            // `finish` would fill the bar, also of a run that was drained half-way.
            bar.abandon();
        }
    }
}
