//! Summaries of runs, from their event logs.
//!
//! Everything here is a fold over [`asgc_core::event::Event`]: whatever is shown about a run can be told
//! from its `events.jsonl` alone, also while it is still being written.
//!
//! | module | what it gives |
//! |---|---|
//! | [`calibrate`] | what a simulation needs to know of machines, from a real run |
//! | [`findings`] | the reference's findings, measured again |
//! | [`log`] | events from bytes: whole files, and files that grow |
//! | [`steps`] | what trainers' steps are made of |
//! | [`summary`] | the figures of a run |
//! | [`plan`] | what a link and a model lead to, before anything runs |
//! | [`progress`] | what a progress bar shows |
//! | [`replay`] | a log recomputed, line by line |
//! | [`explain`] | a readable account of a run |
//! | [`objective`] | problems whose gradient is a formula |
//! | [`report`] | runs drawn: a page, plots, a table for other programs |
//! | [`simulate`] | runs on virtual time |
//! | [`rate`] | updates a second, without the start |
//! | [`spread`], [`seeds`] | mean and spread over seeds, configurations side by side |
//! | [`table`] | figures of one or several runs, side by side |
//! | [`units`] | bytes, seconds and shares as people read them |

pub mod calibrate;
pub mod explain;
pub mod findings;
pub mod log;
pub mod objective;
pub mod plan;
pub mod progress;
pub mod rate;
pub mod replay;
pub mod report;
pub mod seeds;
pub mod simulate;
pub mod spread;
pub mod steps;
pub mod summary;
pub mod table;
pub mod units;

#[cfg(test)]
mod samples;

pub use log::{Log, ReadError, fold_log, read_log};
pub use progress::Progress;
pub use summary::Summary;
