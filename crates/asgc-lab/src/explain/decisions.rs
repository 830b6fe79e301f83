//! Each decision in a few lines; long series of the same in one.

use super::Facts;
use crate::units;
use asgc_core::event::Control;
use std::fmt::Write as _;

/// The decisions, in order.
pub(super) fn decisions(facts: &Facts) -> String {
    let mut text = String::new();
    let mut quiet: Vec<&Control> = Vec::new();
    for (number, control) in facts.controls.iter().enumerate() {
        if is_quiet(control) {
            quiet.push(control);
            continue;
        }
        flush(&mut quiet, &mut text);
        let _ = write!(
            text,
            "\n{}",
            decision(facts, control, facts.controls.get(number + 1))
        );
    }
    flush(&mut quiet, &mut text);
    text
}

/// Nothing moved, and nobody said anything new.
fn is_quiet(control: &Control) -> bool {
    control.operator.is_none()
        && control.old_s_max == control.new_s_max
        && control
            .workers
            .iter()
            .all(|worker| worker.old_codec == worker.new_codec && worker.fits)
}

fn flush(quiet: &mut Vec<&Control>, text: &mut String) {
    let held = std::mem::take(quiet);
    let (Some(first), Some(last)) = (held.first(), held.last()) else {
        return;
    };
    let reason = if held.iter().all(|control| control.reason == first.reason) {
        first.reason.clone()
    } else {
        format!("{} … {}", first.reason, last.reason)
    };
    let _ = match held.len() {
        1 => write!(text, "\n{:>9}  nothing moved: {reason}", at(first)),
        n => write!(
            text,
            "\n{:>9}  to {}, {n} decisions: nothing moved: {reason}",
            at(first),
            at(last)
        ),
    };
}

fn decision(facts: &Facts, control: &Control, next: Option<&Control>) -> String {
    let mut text = format!("{:>9}  {}", at(control), control.reason);
    let _ = write!(text, "\n           saw {}", signals(control));
    if control.old_s_max != control.new_s_max {
        let _ = write!(
            text,
            "\n           s_max {} -> {}, at once",
            control.old_s_max, control.new_s_max
        );
    }
    for worker in &control.workers {
        let id = worker.worker_id;
        if worker.old_codec != worker.new_codec {
            let _ = write!(
                text,
                "\n           worker {id}: {} -> {}",
                worker.old_codec, worker.new_codec
            );
            if worker.reason != control.reason {
                let _ = write!(text, ": {}", worker.reason);
            }
            let push = facts.confirmed.get(&(id, control.revision));
            let _ = match push {
                Some(push) => write!(text, "; from its push {push} on"),
                None => write!(text, "; no push of it came under this any more"),
            };
        }
        if !worker.fits {
            let _ = write!(text, "\n           worker {id}: {}", worker.reason);
        }
        let achieved = next.and_then(|next| next.workers.iter().find(|then| then.worker_id == id));
        if let Some((predicted, then)) = worker.predicted_updates_per_s.zip(achieved)
            && worker.old_codec != worker.new_codec
        {
            let _ = write!(
                text,
                "\n           predicted {} of worker {id}, achieved {} until the next decision",
                units::per_second(predicted),
                units::per_second(then.achieved_updates_per_s)
            );
        }
    }
    text
}

fn signals(control: &Control) -> String {
    let source = control.loss_source.map_or("", |source| source.as_str());
    let parts = [
        control
            .loss_trend
            .map(|trend| format!("{source} loss {trend:+.3}")),
        control
            .loss_variability
            .map(|rebound| format!("rebound {rebound:.3}")),
        control
            .accuracy_drop
            .map(|drop| format!("accuracy {} below its best", units::accuracy(drop))),
        Some(format!("{} rejected", units::percent(control.rejected_frac))),
        Some(format!(
            "{}/s of payload",
            units::bytes(control.bytes_per_s as u64)
        )),
        Some(format!("staleness {:.1}", control.mean_staleness)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn at(control: &Control) -> String {
    format!("{:.1} s", control.elapsed_s)
}
