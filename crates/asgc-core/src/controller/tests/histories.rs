//! Whatever happens in a run.

use super::*;
use crate::event::{Operator, Override};
use crate::ids::{Bits, Density};
use proptest::prelude::*;

/// What happens next.
#[derive(Debug, Clone)]
enum Step {
    Event(Box<Event>),
    /// A decision, if one is due by then.
    Decide,
    ByHand(Override),
}

fn push() -> impl Strategy<Value = Event> {
    let times = (
        -1.0..2.0f64,
        -1.0..0.5f64,
        prop::option::of((1u64..5_000_000, 0.0..3.0f64)),
    );
    let push = (
        0u32..3,
        0u64..20,
        0u64..5_000_000,
        any::<bool>(),
        0.0..1000.0f64,
        0.0..200.0f64,
    );
    (push, times).prop_map(|((worker, tau, bytes, rejected, at, residual_norm), times)| {
        changed(update(tau, bytes, at), |update| {
            update.worker_id = WorkerId(worker);
            (update.compute_s, update.encode_s, update.residual_norm) = (times.0, times.1, residual_norm);
            update.upload_bytes = times.2.map(|(bytes, _)| bytes);
            update.upload_s = times.2.map(|(_, upload_s)| upload_s);
            update.rtt_s = times.2.map(|_| 0.001);
            update.version = Version(at as u64);
            if rejected {
                update.decision = Decision::Rejected;
            }
        })
    })
}

fn by_hand() -> impl Strategy<Value = Override> {
    let codec = prop_oneof![
        Just(Codec::Identity),
        (0.001..=1.0f64).prop_map(|rho| Codec::TopK(Density::new(rho).unwrap())),
        (2u8..=8).prop_map(|bits| Codec::Quantize(Bits::new(bits).unwrap())),
    ];
    let options = (
        prop::option::of(0u32..4),
        prop::option::of(codec),
        prop::option::of(0u64..25),
    );
    (options, any::<Option<bool>>()).prop_map(|((worker, codec, s_max), pin)| Override {
        worker_id: worker.map(WorkerId),
        codec,
        s_max,
        pin,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let losses = prop_oneof![6 => 0.0..3.0f64, 1 => Just(f64::NAN), 1 => Just(f64::INFINITY)];
    let event = |event| Step::Event(Box::new(event));
    prop_oneof![
        16 => push().prop_map(event),
        4 => (0u64..100, losses).prop_map(move |(version, loss)| event(eval(version, loss))),
        4 => Just(Step::Decide),
        1 => by_hand().prop_map(Step::ByHand),
    ]
}

fn settings() -> impl Strategy<Value = Config> {
    let bounds = (0.01..0.5f64, 0.5..1.0f64, 0u64..4, 6u64..20);
    let steps = (0.001..1.0f64, 1u8..9, 1u64..9, 1u32..4);
    let kind = (
        0..3u8,
        0..3u8,
        any::<(bool, bool, bool)>(),
        (0u64..4, prop::option::of(1u64..50)),
    );
    (bounds, steps, kind).prop_map(
        |((low, high, least, most), (rho, bits, s_max, persistence), kind)| {
            let (policy, mode, (compression, staleness, auto), (s_low, versions)) = kind;
            config(|config| {
                config.compression.mode = [
                    CompressionMode::Identity,
                    CompressionMode::Topk,
                    CompressionMode::Quantize,
                ][usize::from(mode)];
                (config.compression.rho, config.compression.bits) = (0.5, 5);
                config.compression.auto = auto;
                (config.staleness.s_low, config.staleness.s_max) = (s_low.min(least), 5);
                let controller = &mut config.controller;
                controller.policy = [
                    ControlPolicy::Threshold,
                    ControlPolicy::Score,
                    ControlPolicy::Budget,
                ][usize::from(policy)];
                controller.interval_versions = versions;
                (controller.rho_bounds, controller.s_max_bounds) = ([low, high], [least, most]);
                controller.bits_bounds = [4, 7];
                controller.max_delta_rho = rho;
                (controller.max_delta_bits, controller.max_delta_s_max) = (bits, s_max);
                controller.instability_persistence = persistence;
                (controller.adapt_compression, controller.adapt_staleness) = (compression, staleness);
            })
        },
    )
}

/// A log with its decisions in place.
fn run(config: &Config, steps: &[Step]) -> Vec<Event> {
    let mut controller = Controller::new(config);
    let (mut log, mut now_s) = (Vec::new(), 0.0);
    for step in steps {
        match step {
            Step::Event(event) => {
                controller.observe(event);
                log.push(*event.clone());
            }
            Step::Decide => {
                now_s += 7.3;
                log.extend(controller.decide(now_s).map(Event::Control));
            }
            Step::ByHand(set) => {
                let operator = Operator {
                    by: "somebody".into(),
                    why: "to see".into(),
                    set: set.clone(),
                };
                log.extend(controller.set_by_hand(now_s, operator).map(Event::Control));
            }
        }
    }
    log
}

/// The decisions that a log leads to, at the times of those that it holds.
fn replayed(config: &Config, log: &[Event]) -> Vec<Event> {
    let mut controller = Controller::new(config);
    let mut decisions = Vec::new();
    for event in log {
        let Event::Control(control) = event else {
            controller.observe(event);
            continue;
        };
        let again = match &control.operator {
            Some(operator) => controller.set_by_hand(control.elapsed_s, operator.clone()).ok(),
            None => controller.decide(control.elapsed_s),
        };
        decisions.extend(again.map(Event::Control));
    }
    decisions
}

/// Every trainer's codec lies within the bounds, whoever chose it.
fn assert_within(config: &Config, control: &Control) {
    let ([low, high], [fewest, most]) = (config.controller.rho_bounds, config.controller.bits_bounds);
    for worker in &control.workers {
        match worker.new_codec {
            Codec::Identity | Codec::Sign => {}
            Codec::TopK(rho) => assert!((low..=high).contains(&rho.get()), "{worker:?}"),
            Codec::Quantize(bits) => assert!((fewest..=most).contains(&bits.get()), "{worker:?}"),
        }
    }
    let [low, high] = config.controller.s_max_bounds;
    assert!((low..=high).contains(&control.new_s_max), "{control:?}");
    assert!(control.new_s_max >= config.staleness.s_low);
    assert!(!control.reason.is_empty());
}

/// A policy moves by no more than its deltas, and not what is switched off.
fn assert_stepped(config: &Config, control: &Control) {
    let c = &config.controller;
    assert!(control.new_s_max.abs_diff(control.old_s_max) <= c.max_delta_s_max);
    assert!(control.old_s_max == control.new_s_max || c.adapt_staleness);
    for worker in &control.workers {
        let (old, new) = (worker.old_codec, worker.new_codec);
        assert!(
            old == new || c.adapt_compression || config.compression.auto,
            "{worker:?}"
        );
        // What an operator or `compression.auto` switched over is no step.
        let (Some(from), Some(to)) = (strength(old), strength(new)) else {
            continue;
        };
        if old.name() != new.name() || config.compression.auto {
            continue;
        }
        match (c.policy, old) {
            (ControlPolicy::Budget, _) => assert!(to <= 1.006 * from * c.max_factor_rho, "{worker:?}"),
            // `rho` is kept to nine decimals.
            (_, Codec::TopK(_)) => assert!((to - from).abs() <= c.max_delta_rho + 1e-9, "{worker:?}"),
            _ => assert!((to - from).abs() <= f64::from(c.max_delta_bits), "{worker:?}"),
        }
    }
}

fn strength(codec: Codec) -> Option<f64> {
    match codec {
        Codec::Identity | Codec::Sign => None,
        Codec::TopK(rho) => Some(rho.get()),
        Codec::Quantize(bits) => Some(f64::from(bits.get())),
    }
}

proptest! {
    #[test]
    fn controls_keep_their_limits_and_a_log_replays(
        config in settings(),
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let log = run(&config, &steps);
        let decisions = log.iter().filter(|event| matches!(event, Event::Control(_))).cloned().collect::<Vec<_>>();
        let mut s_max = config.staleness.s_max;
        let by_hand = decisions.iter().any(|event| matches!(event, Event::Control(control) if control.operator.is_some()));
        for decision in &decisions {
            let Event::Control(control) = decision else { unreachable!() };
            assert_within(&config, control);
            // After a pin, trainers stand apart from the common codec, and one step may lead back to it.
            if !by_hand {
                assert_stepped(&config, control);
            }
            // Each goes on where the last one ended.
            prop_assert_eq!(control.old_s_max, s_max);
            s_max = control.new_s_max;
        }
        // By way of the file, as a replay reads it.
        let read = log.iter().map(|event| {
            serde_json::from_str(&serde_json::to_string(event).unwrap()).unwrap()
        });
        prop_assert_eq!(replayed(&config, &read.collect::<Vec<_>>()), decisions);
    }
}
