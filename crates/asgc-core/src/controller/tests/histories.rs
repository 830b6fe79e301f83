//! Whatever happens in a run.

use super::*;
use proptest::prelude::*;

/// One event, or the end of a window.
fn event() -> impl Strategy<Value = Option<Event>> {
    let losses = prop_oneof![6 => 0.0..3.0f64, 1 => Just(f64::NAN), 1 => Just(f64::INFINITY)];
    prop_oneof![
        6 => (0u64..20, 0u64..5_000_000, 0.0..1000.0f64).prop_map(|(tau, bytes, at)| Some(update(tau, bytes, at))),
        2 => (0.0..1000.0f64).prop_map(|at| Some(rejected(at))),
        2 => (0u64..100, losses).prop_map(|(version, loss)| Some(eval(version, loss))),
        2 => Just(None),
    ]
}

fn settings() -> impl Strategy<Value = Config> {
    let bounds = (0.01..0.5f64, 0.5..1.0f64, 0u64..4, 6u64..20);
    let steps = (0.001..1.0f64, 1u8..9, 1u64..9, 1u32..4);
    let kind = (any::<bool>(), 0..3u8, any::<(bool, bool)>(), 0u64..4);
    (bounds, steps, kind).prop_map(
        |((low, high, least, most), (rho, bits, s_max, persistence), kind)| {
            let (score, mode, (compression, staleness), s_low) = kind;
            config(|config| {
                config.compression.mode = [
                    CompressionMode::Identity,
                    CompressionMode::Topk,
                    CompressionMode::Quantize,
                ][usize::from(mode)];
                (config.compression.rho, config.compression.bits) = (0.5, 5);
                (config.staleness.s_low, config.staleness.s_max) = (s_low.min(least), 5);
                let controller = &mut config.controller;
                if score {
                    controller.policy = ControlPolicy::Score;
                }
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
fn run(config: &Config, events: &[Option<Event>]) -> Vec<Event> {
    let mut controller = Controller::new(config).unwrap();
    let (mut log, mut now_s) = (Vec::new(), 0.0);
    for event in events {
        match event {
            Some(event) => {
                controller.observe(event);
                log.push(event.clone());
            }
            None => {
                now_s += 7.3;
                log.extend(controller.decide(now_s).map(Event::Control));
            }
        }
    }
    log
}

/// The decisions that a log leads to, at the times of those that it holds.
fn replayed(config: &Config, log: &[Event]) -> Vec<Event> {
    let mut controller = Controller::new(config).unwrap();
    let mut decisions = Vec::new();
    for event in log {
        match event {
            Event::Control(control) => {
                decisions.extend(controller.decide(control.elapsed_s).map(Event::Control));
            }
            event => controller.observe(event),
        }
    }
    decisions
}

fn assert_kept(config: &Config, control: &Control) {
    let c = &config.controller;
    let within = |low: f64, high: f64, x: f64| (low..=high).contains(&x);
    let (old, new) = (control.old_compression, control.new_compression);
    if let (Some(old), Some(new)) = (old, new) {
        let topk = control.compression_mode == "topk";
        let (low, high, delta) = if topk {
            (c.rho_bounds[0], c.rho_bounds[1], c.max_delta_rho)
        } else {
            (4.0, 7.0, f64::from(c.max_delta_bits))
        };
        assert!(within(low, high, new), "{control:?}");
        // `rho` is kept to nine decimals.
        assert!((new - old).abs() <= delta + 1e-9, "{control:?}");
        assert!(old == new || c.adapt_compression);
    }
    let [low, high] = c.s_max_bounds;
    assert!((low..=high).contains(&control.new_s_max), "{control:?}");
    assert!(control.new_s_max >= config.staleness.s_low);
    assert!(control.new_s_max.abs_diff(control.old_s_max) <= c.max_delta_s_max);
    assert!(control.old_s_max == control.new_s_max || c.adapt_staleness);
    assert!(!control.reason.is_empty());
}

proptest! {
    #[test]
    fn controls_keep_their_limits_and_a_log_replays(
        config in settings(),
        events in prop::collection::vec(event(), 0..120),
    ) {
        let log = run(&config, &events);
        let decisions = log.iter().filter(|event| matches!(event, Event::Control(_))).cloned().collect::<Vec<_>>();
        let start = (config.compression.codec().unwrap(), config.staleness.s_max);
        let mut at = (Vector { codec: start.0, s_max: start.1 }.strength(), start.1);
        for decision in &decisions {
            let Event::Control(control) = decision else { unreachable!() };
            assert_kept(&config, control);
            // Each goes on where the last one ended.
            prop_assert_eq!((control.old_compression, control.old_s_max), at);
            at = (control.new_compression, control.new_s_max);
        }
        // By way of the file, as a replay reads it.
        let read = log.iter().map(|event| {
            serde_json::from_str(&serde_json::to_string(event).unwrap()).unwrap()
        });
        prop_assert_eq!(replayed(&config, &read.collect::<Vec<_>>()), decisions);
    }
}
