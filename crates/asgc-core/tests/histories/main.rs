//! Random histories of three workers and a server: gradients, messages that arrive late or never, broken
//! connections, pushes repeated, servers that die. Whatever happens:
//!
//! 1. **No gradient mass is lost.** Once the run is stopped, for every worker, to float rounding,
//!    `sum of gradients = sum of D(C(u)) over the pushes that were taken + residual`.
//!    A push was *taken* when the current life of the server applied it; or when a life before applied it and
//!    the worker was told so. One that an earlier life applied but could not report is not taken: that life's
//!    updates are forgotten, and the worker, who learns of the new life first, has put the push back.
//!    With `reclaim`, what is taken of a down-weighted push is its weight's share.
//! 2. In the current life, server and worker agree: a push is settled as applied if and only if it was.
//! 3. A push is applied at most once over all lives, and decided at most once in each.
//! 4. The version rises by exactly one with each applied push (with each round, in sync mode), and the log
//!    alone gives all versions and, with the payloads, the parameters; these are always finite.
//! 5. A push has the compression that the log says was in force at the revision it names.
//! 6. A worker that holds a version holds the parameters that the server had at that version, to the bit, by whatever
//!    snapshots and deltas it came there. With a lossy downlink all who hold a version hold the same, to rounding.
//! 7. The same history gives the same log, byte for byte.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, outside of #[test]"
)]

mod simulation;
mod site;

use asgc_core::codec::{Codec, Form, Scope, Values};
use asgc_core::config::{DownlinkMode, Mode};
use asgc_core::event::{Decision, Event, Update};
use asgc_core::ids::{Bits, Density, Generation, Revision};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use simulation::{PARAMETERS, Setting, Simulation, Step, WORKERS};
use std::collections::{BTreeMap, BTreeSet};

fn step() -> impl Strategy<Value = Step> {
    let who = 0..WORKERS;
    prop_oneof![
        8 => (who.clone(), any::<u32>()).prop_map(|(who, seed)| Step::Gradient(who, seed)),
        1 => who.clone().prop_map(Step::BadGradient),
        4 => who.clone().prop_map(Step::Pull),
        16 => who.clone().prop_map(Step::Up),
        1 => who.clone().prop_map(Step::SpoiltUp),
        10 => who.clone().prop_map(Step::Down),
        2 => (who.clone(), any::<bool>()).prop_map(|(who, seen)| Step::Cut(who, seen)),
        4 => who.prop_map(Step::Join),
        1 => Just(Step::Restart),
    ]
}

fn setting() -> impl Strategy<Value = Setting> {
    let mode = prop_oneof![
        3 => Just(Mode::Async),
        1 => Just(Mode::Ssp),
        2 => Just(Mode::Sync),
    ];
    let codec = prop_oneof![
        Just(Codec::Identity),
        Just(Codec::TopK(Density::new(0.3).unwrap())),
        Just(Codec::Quantize(Bits::new(3).unwrap())),
        Just(Codec::Sign),
    ];
    let form = (any::<bool>(), any::<bool>(), any::<bool>());
    let downlink = prop_oneof![
        1 => Just(DownlinkMode::Snapshot),
        3 => Just(DownlinkMode::Delta),
        1 => Just(DownlinkMode::Lossy),
    ];
    let switches = (any::<bool>(), any::<bool>());
    (mode, (codec, form), switches, downlink).prop_map(|(mode, coding, (reclaim, adaptive), downlink)| {
        Setting {
            downlink,
            mode,
            codec: coding.0,
            form: form_of(coding.0, coding.1),
            reclaim,
            adaptive,
        }
    })
}

/// A form that goes with the codec.
fn form_of(codec: Codec, (packed, rounded, whole): (bool, bool, bool)) -> Form {
    let values = match codec {
        Codec::Identity if rounded => Values::Bf16,
        Codec::TopK(_) if packed && rounded => Values::Int8,
        _ => Values::F32,
    };
    let scope = if whole { Scope::Model } else { Scope::Tensor };
    Form {
        values,
        packed,
        scope,
    }
}

/// Starts with everybody there; ends with everybody stopped.
fn run(setting: Setting, steps: &[Step]) -> Simulation {
    let mut simulation = Simulation::new(setting);
    (0..WORKERS).for_each(|who| simulation.take(Step::Join(who)));
    for &step in steps {
        simulation.take(step);
        let theta = simulation.server.parameters().unwrap().to_vec();
        assert!(theta.iter().all(|value| value.is_finite()), "{theta:?}");
        assert_log_gives_versions(&simulation, setting.mode);
        assert_workers_hold_versions(&mut simulation);
    }
    simulation.finish();
    simulation
}

fn updates(life: &[Event]) -> impl Iterator<Item = &Update> {
    life.iter().filter_map(|event| match event {
        Event::Update(update) => Some(update),
        _ => None,
    })
}

fn applied(life: &[Event]) -> impl Iterator<Item = &Update> {
    updates(life).filter(|update| update.decision != Decision::Rejected)
}

/// Statement 4, the versions.
fn assert_log_gives_versions(simulation: &Simulation, mode: Mode) {
    let life = simulation.lives.last().unwrap();
    let pushes_a_version = if mode == Mode::Sync { WORKERS as u64 } else { 1 };
    let mut pushes = 0;
    for update in updates(life) {
        pushes += u64::from(update.decision != Decision::Rejected);
        assert_eq!(update.version.0, pushes.div_ceil(pushes_a_version), "{update:?}");
    }
    assert_eq!(simulation.server.version().0 * pushes_a_version, pushes);
}

/// Statement 6.
fn assert_workers_hold_versions(simulation: &mut Simulation) {
    let lossy = simulation.setting.downlink == DownlinkMode::Lossy;
    let Simulation {
        sites,
        versions,
        views,
        ..
    } = simulation;
    for site in sites {
        let Some(at) = site.base else { continue };
        if !lossy {
            assert_eq!(&site.theta, &versions[&at], "{at:?}");
            continue;
        }
        let view = views.entry(at).or_insert_with(|| site.theta.clone());
        let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-4;
        assert!(site.theta.iter().zip(&*view).all(near), "{at:?}");
    }
}

/// Statement 4, the parameters: an oracle in f64 that knows the log and the payloads.
fn assert_log_gives_parameters(simulation: &Simulation) {
    let mut theta = [0.0f64; PARAMETERS];
    for update in applied(simulation.lives.last().unwrap()) {
        let (_, decoded) = &simulation.sites[update.worker_id.0 as usize].pushes[&update.push_id];
        let scale = update.lr * update.weight;
        theta
            .iter_mut()
            .zip(decoded)
            .for_each(|(t, &d)| *t -= scale * f64::from(d));
    }
    let found = simulation.server.parameters().unwrap().to_vec();
    for (found, expected) in found.iter().zip(theta) {
        assert!(
            (f64::from(*found) - expected).abs() < 1e-4,
            "{found}, not {expected}"
        );
    }
}

/// Statement 3.
fn assert_decided_once(simulation: &Simulation) {
    let mut ever = BTreeSet::new();
    for life in &simulation.lives {
        let mut decided = BTreeSet::new();
        for update in updates(life) {
            let id = (update.worker_id, update.push_id);
            assert!(decided.insert(id), "decided twice: {update:?}");
            assert!(
                update.decision == Decision::Rejected || ever.insert(id),
                "applied twice: {update:?}"
            );
        }
    }
}

/// Statements 1 and 2.
fn assert_mass_is_conserved(simulation: &Simulation, reclaim: bool) {
    let current = simulation.lives.len() as u64;
    for (who, site) in simulation.sites.iter().enumerate() {
        assert!(site.stopped, "no pull is left unanswered at the end");
        assert_eq!(site.worker.in_flight(), 0);
        assert_eq!(site.settled.len(), site.pushes.len(), "every push is settled");
        let mut sum: [f64; PARAMETERS] = site.computed;
        for (generation, life) in (1..).zip(&simulation.lives) {
            for update in applied(life).filter(|update| update.worker_id.0 as usize == who) {
                let (made_for, decoded) = &site.pushes[&update.push_id];
                assert_eq!(*made_for, Generation(generation));
                let told = site.settled[&update.push_id].decision;
                if generation == current {
                    assert_eq!(told, update.decision, "both sides agree on {update:?}");
                }
                if told == Decision::Rejected {
                    continue;
                }
                let reclaimed = reclaim && update.decision == Decision::Downweighted;
                let share = if reclaimed { update.weight } else { 1.0 };
                sum.iter_mut()
                    .zip(decoded)
                    .for_each(|(s, &d)| *s -= share * f64::from(d));
            }
        }
        for (left, residual) in sum.iter().zip(site.worker.residual()) {
            assert!(
                (left - f64::from(*residual)).abs() < 1e-3,
                "{left}, not {residual}"
            );
        }
        assert_told_only_what_was(simulation, who);
    }
}

/// Statement 2, the other way round, and for lives before too.
fn assert_told_only_what_was(simulation: &Simulation, who: usize) {
    let site = &simulation.sites[who];
    for (push, verdict) in &site.settled {
        let life = &simulation.lives[site.pushes[push].0.0 as usize - 1];
        let was = applied(life).any(|u| u.worker_id.0 as usize == who && u.push_id == *push);
        assert!(
            was || verdict.decision == Decision::Rejected,
            "{push}: {verdict:?}"
        );
    }
}

/// Statement 5, over reconnects and restarts too.
fn assert_compressed_as_told(simulation: &Simulation, codec: Codec) {
    for life in &simulation.lives {
        let mut strengths = BTreeMap::new();
        for event in life {
            match event {
                Event::Control(control) => {
                    strengths.insert(control.revision, control.new_compression);
                }
                Event::Update(update) => {
                    let revision = update.controls_revision;
                    let known = strengths.get(&revision).copied().flatten();
                    assert!(known.is_some() || revision == Revision(0), "{update:?}");
                    let codec = match (codec, known) {
                        (Codec::TopK(_), Some(rho)) => Codec::TopK(Density::new(rho).unwrap()),
                        (Codec::Quantize(_), Some(bits)) => Codec::Quantize(Bits::new(bits as u8).unwrap()),
                        (start, _) => start,
                    };
                    if simulation.setting.form == Form::default() {
                        assert_eq!(update.payload_bytes, codec.payload_bytes(&simulation.layout));
                    }
                }
                _ => {}
            }
        }
    }
}

fn log_of(simulation: &Simulation) -> String {
    let lines = simulation.lives.iter().flatten().map(serde_json::to_string);
    lines.map(|line| line.unwrap() + "\n").collect()
}

/// The same histories in every run; others with `ASGC_HISTORIES_SEED=n`.
fn config() -> ProptestConfig {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test may be asked to try other histories"
    )]
    let seed = std::env::var("ASGC_HISTORIES_SEED").map_or(1, |seed| seed.parse().unwrap());
    ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn whatever_happens(setting in setting(), steps in prop::collection::vec(step(), 1..300)) {
        let simulation = run(setting, &steps);
        assert_log_gives_versions(&simulation, setting.mode);
        assert_log_gives_parameters(&simulation);
        assert_decided_once(&simulation);
        assert_mass_is_conserved(&simulation, setting.reclaim);
        assert_compressed_as_told(&simulation, setting.codec);
        let log = log_of(&simulation);
        prop_assert_eq!(&log, &log_of(&run(setting, &steps)));
        // What was written can be read, and says the same.
        let read = log.lines().map(|line| serde_json::from_str::<Event>(line).unwrap());
        prop_assert!(read.eq(simulation.lives.concat()));
    }
}

/// The trap in statement 1: applied, the verdict lost, and then the server's memory too.
#[test]
fn a_push_applied_by_a_life_that_could_not_report_is_put_back() {
    let setting = Setting {
        mode: Mode::Async,
        codec: Codec::Identity,
        form: Form::default(),
        reclaim: false,
        downlink: DownlinkMode::Delta,
        adaptive: false,
    };
    let pulled = [Step::Up(0), Step::Down(0)];
    let pushed = [Step::Gradient(0, 1), Step::Up(0), Step::Up(0)];
    let simulation = run(setting, &[&pulled[..], &pushed, &[Step::Restart]].concat());
    assert_eq!(applied(&simulation.lives[0]).count(), 1);
    assert_eq!(applied(&simulation.lives[1]).count(), 0);
    let residual = simulation.sites[0].worker.residual();
    assert!(residual.iter().any(|&e| e != 0.0));
    assert_mass_is_conserved(&simulation, false);
}

/// The same without the server's death: it is taken, and not put back.
#[test]
fn a_push_whose_verdict_was_lost_is_taken_once() {
    let setting = Setting {
        mode: Mode::Async,
        codec: Codec::Identity,
        form: Form::default(),
        reclaim: false,
        downlink: DownlinkMode::Delta,
        adaptive: false,
    };
    for seen in [true, false] {
        let pulled = [Step::Up(0), Step::Down(0)];
        let pushed = [Step::Gradient(0, 1), Step::Up(0), Step::Up(0)];
        let simulation = run(setting, &[&pulled[..], &pushed, &[Step::Cut(0, seen)]].concat());
        assert_eq!(applied(&simulation.lives[0]).count(), 1);
        assert_eq!(simulation.sites[0].worker.residual(), [0.0; PARAMETERS]);
    }
}
