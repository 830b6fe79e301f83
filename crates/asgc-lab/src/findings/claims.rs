//! The reference's findings F1 to F12 and its success criteria, held against the evidence.

use super::evidence::{
    Evidence, Run, accuracy, applied_staleness, largest_drop, megabytes, rate, ratio, to_target, wall,
};
use super::finding::{Finding, Verdict, judge, points, table};

const FMNIST: [&str; 6] = [
    "sync_sgd",
    "async_plain",
    "async_fixed_staleness",
    "async_fixed_topk",
    "async_topk_ef",
    "adaptive",
];
const CIFAR: [&str; 4] = ["r8_plain", "r8_topk", "r8_topk_ef", "r8_adaptive"];
const THIN: [&str; 4] = ["r8_plain_bw", "r8_topk_bw", "r8_topk_ef_bw", "r8_adaptive_bw"];

/// Two accuracies count as the same within so many points: the spread over seeds is of that size.
const SAME_POINTS: f64 = 0.3;

const MINUS: fn(f64, f64) -> f64 = |a, b| a - b;
const OVER: fn(f64, f64) -> f64 = |a, b| a / b;

pub(super) fn all(e: &Evidence) -> Vec<Finding> {
    vec![
        f1(e),
        f2(e),
        f3(e),
        f4(e),
        f5(e),
        f6(e),
        f7(e),
        f8(e),
        f9(e),
        f10(e),
        f11(e),
        f12(e),
    ]
}

fn f1(e: &Evidence) -> Finding {
    let gain = e.paired(["sync_sgd", "async_plain"], to_target, OVER);
    Finding {
        id: "F1",
        claim: "Beside a worker that is 0.3 s slower, asynchrony reaches 0.85 ten to sixteen times sooner (27.8 s against 274.3 s).",
        measured: format!(
            "{}\n\nSooner by a factor of {}.",
            table(
                e,
                &["sync_sgd", "async_plain"],
                &[
                    ("time to 0.85 (s)", to_target),
                    ("updates/s", rate),
                    ("accuracy (%)", accuracy)
                ]
            ),
            points(gain)
        ),
        verdict: judge(gain.map(|gain| (9.0..=17.0).contains(&gain.mean))),
        remark: "The gain is the ratio of a round's time to the time between two updates, times the ratio of updates that each \
                 needs. It is a property of this step beside this delay, as the next table shows.",
        files: "configs/findings/fmnist.toml",
    }
}

fn f2(e: &Evidence) -> Finding {
    let (gain, bytes) = (
        e.paired(["async_topk_ef", "async_plain"], accuracy, MINUS),
        e.paired(["async_topk_ef", "async_plain"], megabytes, OVER),
    );
    let holds = gain
        .zip(bytes)
        .map(|(gain, bytes)| gain.mean > -SAME_POINTS && (bytes.mean - 0.5).abs() < 0.005);
    Finding {
        id: "F2",
        claim: "Top-K with error feedback is the best trade: 87.47 %, the best of six, at exactly half the bytes.",
        measured: format!(
            "{}\n\nAgainst plain asynchrony: {} points of accuracy, {} of the bytes.",
            table(
                e,
                &FMNIST,
                &[
                    ("accuracy (%)", accuracy),
                    ("payload (MB)", megabytes),
                    ("time to 0.85 (s)", to_target)
                ]
            ),
            points(gain),
            points(bytes)
        ),
        verdict: judge(holds),
        remark: "Half the bytes is arithmetic: a quarter of the entries, 8 bytes each instead of 4. Whether it is the best of six \
                 is within the spread over seeds.",
        files: "configs/findings/fmnist.toml",
    }
}

fn f3(e: &Evidence) -> Finding {
    let pair = ["async_fixed_staleness", "async_plain"];
    let (bytes, later) = (e.paired(pair, megabytes, OVER), e.paired(pair, to_target, OVER));
    let bound = e.spread("async_fixed_staleness", applied_staleness);
    let free = e.spread("async_plain", applied_staleness);
    let bounded = bound
        .zip(free)
        .map(|(bound, free)| bound.mean <= 4.0 && free.mean > 4.0);
    let more = bytes.map(|bytes| bytes.mean > 1.0);
    let slower = later.map(|later| later.mean > 1.0);
    let verdict = match (bounded, more, slower) {
        (Some(true), Some(true), Some(true)) => Verdict::Holds,
        (Some(true), Some(true), Some(false)) => Verdict::Partly,
        (Some(_), Some(_), Some(_)) => Verdict::Fails,
        _ => Verdict::Unmeasured,
    };
    Finding {
        id: "F3",
        claim: "Bounding staleness is insurance, not speed: more bytes (rejected pushes are sent too), a little slower, applied \
                staleness at most 4 against 19.",
        measured: format!(
            "{}\n\nAgainst plain asynchrony: {} of the bytes, {} of the time to 0.85.",
            table(
                e,
                &["async_plain", "async_fixed_staleness"],
                &[
                    ("largest applied staleness", applied_staleness),
                    ("payload (MB)", megabytes),
                    ("time to 0.85 (s)", to_target),
                    ("accuracy (%)", accuracy),
                ]
            ),
            points(bytes),
            points(later)
        ),
        verdict,
        remark: "With three workers and steps of one length only the straggler's pushes are rejected here, and all of them: its third \
                 of the data is never seen.",
        files: "configs/findings/fmnist.toml",
    }
}

fn f4(e: &Evidence) -> Finding {
    let gain = e.paired(["async_topk_ef", "async_fixed_topk"], accuracy, MINUS);
    Finding {
        id: "F4",
        claim: "Top-K without error feedback costs accuracy: 86.92 % against 87.47 % at the same bytes.",
        measured: format!(
            "{}\n\nError feedback is worth {} points.",
            table(
                e,
                &["async_fixed_topk", "async_topk_ef"],
                &[("accuracy (%)", accuracy), ("payload (MB)", megabytes)]
            ),
            points(gain)
        ),
        verdict: judge(gain.map(|gain| gain.mean > 0.0)),
        remark: "",
        files: "configs/findings/fmnist.toml",
    }
}

fn f5(e: &Evidence) -> Finding {
    let gain = e.paired(["r8_topk_ef", "r8_plain"], accuracy, MINUS);
    let drop = e.spread("r8_topk_ef", largest_drop);
    Finding {
        id: "F5",
        claim: "On CIFAR-10 with ResNet-18, Top-K with error feedback is no worse than plain asynchrony (86.14 % against 85.50 %) \
                at half the bytes, without a fall between evaluations.",
        measured: format!(
            "{}\n\n{} points against plain asynchrony.",
            table(
                e,
                &CIFAR,
                &[
                    ("accuracy (%)", accuracy),
                    ("payload (MB)", megabytes),
                    ("largest fall (points)", largest_drop)
                ]
            ),
            points(gain)
        ),
        verdict: judge(gain.map(|gain| gain.mean > -1.0)),
        remark: if drop.is_some_and(|drop| drop.mean > 2.0) {
            "The network and the budget are small, so evaluations in the first half of a run still move by some points."
        } else {
            ""
        },
        files: "configs/findings/cifar.toml",
    }
}

fn f6(e: &Evidence) -> Finding {
    let hard = e.paired(["r8_topk_ef", "r8_topk"], accuracy, MINUS);
    let easy = e.paired(["async_topk_ef", "async_fixed_topk"], accuracy, MINUS);
    Finding {
        id: "F6",
        claim: "Error feedback matters more on the harder model: +1.82 points on CIFAR-10, +0.60 on Fashion-MNIST.",
        measured: format!(
            "Points that error feedback adds to Top-K at a quarter of the entries: {} on CIFAR-10 (resnet8), {} on Fashion-MNIST.",
            points(hard),
            points(easy)
        ),
        verdict: match hard.zip(easy) {
            Some((hard, easy)) if hard.mean > easy.mean && easy.mean > 0.0 => Verdict::Holds,
            Some((hard, easy)) if hard.mean > 0.0 || easy.mean > 0.0 => Verdict::Partly,
            Some(_) => Verdict::Fails,
            None => Verdict::Unmeasured,
        },
        remark: "",
        files: "configs/findings/fmnist.toml configs/findings/cifar.toml",
    }
}

/// Seconds to an accuracy that all of the small network's runs reach.
fn to_two_fifths(run: &Run) -> Option<f64> {
    run.summary.time_to(0.4)
}

/// Where the controller went: seconds until rho was at its floor.
fn to_floor(run: &Run) -> Option<f64> {
    let floor = |c: &&asgc_core::event::Control| c.new_compression.is_some_and(|rho| rho < 0.0501);
    run.controls.iter().find(floor).map(|control| control.elapsed_s)
}

fn final_s_max(run: &Run) -> Option<f64> {
    run.controls.last().map(|control| control.new_s_max as f64)
}

fn f7(e: &Evidence) -> Finding {
    let floor = e.spread("r8_adaptive", to_floor);
    let cost = e.paired(["r8_adaptive", "r8_topk_ef"], accuracy, MINUS);
    let holds = floor
        .zip(cost)
        .map(|(floor, cost)| floor.mean <= 150.0 && cost.mean < -SAME_POINTS);
    Finding {
        id: "F7",
        claim: "The controller is stable at scale but goes past the knee: rho 0.25 to 0.05 and s_max 4 to 10 within two minutes, \
                8.13 times fewer bytes at 2.4 points less.",
        measured: format!(
            "{}\n\n{} points against fixed Top-K with error feedback.",
            table(
                e,
                &["r8_adaptive"],
                &[
                    ("rho at its floor after (s)", to_floor),
                    ("s_max at the end", final_s_max),
                    ("ratio", ratio),
                    ("accuracy (%)", accuracy),
                ]
            ),
            points(cost)
        ),
        verdict: match (floor, holds) {
            (Some(_), Some(true)) => Verdict::Holds,
            (Some(floor), Some(false)) if floor.mean <= 150.0 => Verdict::Partly,
            (_, Some(false)) => Verdict::Fails,
            _ => Verdict::Unmeasured,
        },
        remark: "The pressure to compress is an absolute rate of bytes, so it was scaled with the network's size.",
        files: "configs/findings/cifar.toml",
    }
}

fn f8(e: &Evidence) -> Finding {
    let pair = ["r8_topk_ef_bw", "r8_plain_bw"];
    let (gain, time, sooner) = (
        e.paired(pair, accuracy, MINUS),
        e.paired(pair, wall, OVER),
        e.paired([pair[1], pair[0]], to_two_fifths, OVER),
    );
    let all = gain
        .zip(time)
        .map(|(gain, time)| (gain.mean > -SAME_POINTS, time.mean < 1.0));
    Finding {
        id: "F8",
        claim: "On links of 250 Mbit/s, Top-K with error feedback beats plain asynchrony on every axis: +0.49 points, 31 % less \
                time, 1.98 times sooner to the target.",
        measured: format!(
            "{}\n\nAgainst plain asynchrony: {} points, {} of the time, {} times sooner to 0.40.",
            table(
                e,
                &THIN,
                &[
                    ("accuracy (%)", accuracy),
                    ("wall time (s)", wall),
                    ("time to 0.40 (s)", to_two_fifths),
                    ("payload (MB)", megabytes)
                ]
            ),
            points(gain),
            points(time),
            points(sooner)
        ),
        verdict: match all {
            Some((true, true)) => Verdict::Holds,
            Some((false, false)) => Verdict::Fails,
            Some(_) => Verdict::Partly,
            None => Verdict::Unmeasured,
        },
        remark: "",
        files: "configs/findings/cifar.toml",
    }
}

fn f9(e: &Evidence) -> Finding {
    let pair = ["r8_adaptive_bw", "r8_plain_bw"];
    let (faster, time, sooner) = (
        e.paired(pair, rate, OVER),
        e.paired([pair[1], pair[0]], wall, OVER),
        e.paired([pair[1], pair[0]], to_two_fifths, OVER),
    );
    Finding {
        id: "F9",
        claim: "On such links the controller turns compression into time: 2.6 times less wall time, 3 times sooner to the target, \
                9.01 times fewer bytes, 83.76 %.",
        measured: format!(
            "{}\n\nAgainst plain asynchrony: {} times the updates a second, {} times less wall time, {} times sooner to 0.40.",
            table(
                e,
                &["r8_plain_bw", "r8_adaptive_bw"],
                &[
                    ("updates/s", rate),
                    ("wall time (s)", wall),
                    ("ratio", ratio),
                    ("accuracy (%)", accuracy)
                ]
            ),
            points(faster),
            points(time),
            points(sooner)
        ),
        verdict: judge(time.map(|time| time.mean > 1.5)),
        remark: "",
        files: "configs/findings/cifar.toml",
    }
}

fn f10(e: &Evidence) -> Finding {
    let flat = |groups: &[&str]| {
        let walls = groups
            .iter()
            .filter_map(|group| e.spread(group, wall))
            .map(|wall| wall.mean);
        let (low, high) = walls.fold((f64::INFINITY, 0.0_f64), |(low, high), wall| {
            (low.min(wall), high.max(wall))
        });
        (high > 0.0).then(|| high / low)
    };
    let (easy, hard, thin) = (flat(&FMNIST[1..]), flat(&CIFAR), flat(&THIN));
    let show = |ratio: Option<f64>| ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
    Finding {
        id: "F10",
        claim: "Compression buys time only where the link is the bottleneck: unconstrained, the total time is flat.",
        measured: format!(
            "Longest over shortest wall time among asynchronous strategies: {} on Fashion-MNIST and {} on CIFAR-10 without a link's \
             limit, {} on thin links.",
            show(easy),
            show(hard),
            show(thin)
        ),
        verdict: match (easy.or(hard), thin) {
            (Some(free), Some(thin)) if free < 1.15 && thin > 1.3 => Verdict::Holds,
            (Some(_), Some(_)) => Verdict::Partly,
            _ => Verdict::Unmeasured,
        },
        remark: "What is left without a limit is the share of pushes that bounded staleness rejects.",
        files: "configs/findings/fmnist.toml configs/findings/cifar.toml",
    }
}

fn f11(e: &Evidence) -> Finding {
    let bytes = e.paired(["adaptive", "async_topk_ef"], megabytes, OVER);
    let gain = e.paired(["adaptive", "async_topk_ef"], accuracy, MINUS);
    Finding {
        id: "F11",
        claim: "With the rebound as its signal the controller beats the best fixed setting on bytes: 3.65 times fewer than plain, \
                0.195 against 0.332 GB, 87.09 %.",
        measured: format!(
            "{}\n\nAgainst fixed Top-K with error feedback: {} of the bytes, {} points.",
            table(
                e,
                &["async_topk_ef", "adaptive"],
                &[
                    ("payload (MB)", megabytes),
                    ("ratio", ratio),
                    ("accuracy (%)", accuracy)
                ]
            ),
            points(bytes),
            points(gain)
        ),
        verdict: judge(
            bytes
                .zip(gain)
                .map(|(bytes, gain)| bytes.mean < 0.9 && gain.mean > -1.0),
        ),
        remark: "",
        files: "configs/findings/fmnist.toml",
    }
}

/// Decisions that called the run unstable.
fn unstable(run: &Run) -> Option<f64> {
    let called = |reason: &str| reason.contains("instability") || reason.contains("unstable");
    Some(
        run.controls
            .iter()
            .filter(|control| called(&control.reason))
            .count() as f64,
    )
}

fn decisions(run: &Run) -> Option<f64> {
    Some(run.controls.len() as f64)
}

fn f12(e: &Evidence) -> Finding {
    let false_alarms = e.spread("adaptive_persistent", unstable);
    Finding {
        id: "F12",
        claim: "Persistence never engages once the signal is right: no false unstable window is left.",
        measured: table(
            e,
            &["adaptive", "adaptive_persistent"],
            &[
                ("decisions", decisions),
                ("of them unstable", unstable),
                ("ratio", ratio),
                ("accuracy (%)", accuracy),
            ],
        ),
        verdict: judge(false_alarms.map(|unstable| unstable.mean == 0.0)),
        remark: "",
        files: "configs/findings/fmnist.toml",
    }
}

/// The reference's criteria of success.
pub(super) fn criteria(e: &Evidence) -> Vec<(&'static str, String, Verdict)> {
    let bytes = e.paired(["async_topk_ef", "async_plain"], megabytes, OVER);
    let gain = e.paired(["async_topk_ef", "async_plain"], accuracy, MINUS);
    let sooner = e.paired(["sync_sgd", "adaptive"], to_target, OVER);
    let drop = e.spread("adaptive", largest_drop);
    let near = e.paired(["adaptive", "async_topk_ef"], accuracy, MINUS);
    let near_hard = e.paired(["r8_adaptive", "r8_topk_ef"], accuracy, MINUS);
    vec![
        (
            "At most half the bytes of plain asynchrony, at a comparable accuracy",
            format!(
                "{} of the bytes, {} points (Top-K with error feedback)",
                points(bytes),
                points(gain)
            ),
            judge(
                bytes
                    .zip(gain)
                    .map(|(bytes, gain)| bytes.mean <= 0.5005 && gain.mean > -1.0),
            ),
        ),
        (
            "Sooner to the target beside unequal workers",
            format!(
                "{} times sooner than synchronous rounds (adaptive)",
                points(sooner)
            ),
            judge(sooner.map(|sooner| sooner.mean > 1.0)),
        ),
        (
            "No fall of more than 2 points between evaluations, no NaN",
            format!("{} points at most (adaptive, Fashion-MNIST)", points(drop)),
            judge(drop.map(|drop| drop.mean <= 2.0)),
        ),
        (
            "Within one point of the strongest fixed setting, Fashion-MNIST",
            format!(
                "{} points (adaptive against Top-K with error feedback)",
                points(near)
            ),
            judge(near.map(|near| near.mean > -1.0)),
        ),
        (
            "The same on CIFAR-10 (the reference: not met)",
            format!("{} points (resnet8)", points(near_hard)),
            judge(near_hard.map(|near| near.mean > -1.0)),
        ),
        (
            "CIFAR-10 at 0.93 (the reference: never reached)",
            "not tried: two cores do not train ResNet-18 that far".into(),
            Verdict::Unmeasured,
        ),
    ]
}
