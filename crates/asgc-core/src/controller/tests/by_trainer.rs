//! Decisions trainer by trainer, changes by hand, and when decisions are due.

use super::*;
use crate::codec::{Codec, Format};
use crate::event::{Join, LossSource, Operator, Override, RunStart};
use crate::ids::Density;

fn topk(rho: f64) -> Codec {
    Codec::TopK(Density::new(rho).unwrap())
}

fn start(parameters: u64) -> Event {
    Event::RunStart(RunStart {
        parameters,
        ..serde_json::from_str(START).unwrap()
    })
}

/// Two trainers with a million parameters each, ten pushes in ten seconds, of which computing takes `compute_s`; the second
/// has a tenth of the first one's link. `first_push` numbers the window.
fn pushes(goodput: f64, compute_s: f64, window: u32) -> Vec<Event> {
    let begin_s = f64::from(window) * 10.0;
    let push = |worker: u32, at: u32| {
        let goodput = if worker == 0 { goodput } else { goodput / 10.0 };
        changed(update(0, 800_000, begin_s + f64::from(at)), |update| {
            update.worker_id = WorkerId(worker);
            update.compression_mode = Some(Format::TopK);
            (update.compute_s, update.encode_s) = (compute_s, 0.001);
            (update.upload_bytes, update.upload_s) = (Some(800_000), Some(8e5 / goodput));
            update.rtt_s = Some(0.001);
            update.version = Version(u64::from(window * 20 + 2 * at + worker));
        })
    };
    (0..10).flat_map(|at| [push(0, at), push(1, at)]).collect()
}

fn budget(change: impl FnOnce(&mut Config)) -> Controller {
    let mut controller = Controller::new(&config(|config| {
        config.controller.policy = ControlPolicy::Budget;
        config.controller.rho_bounds = [0.001, 0.5];
        config.controller.comm_share_max = 0.2;
        config.controller.max_factor_rho = 1e6;
        change(config);
    }));
    controller.observe(&start(1_000_000));
    controller
}

fn feed(controller: &mut Controller, events: impl IntoIterator<Item = Event>) {
    events.into_iter().for_each(|event| controller.observe(&event));
}

fn rho(codec: Codec) -> f64 {
    match codec {
        Codec::TopK(rho) => rho.get(),
        other => panic!("{other}"),
    }
}

#[test]
fn unequal_links_get_unequal_rho() {
    let mut controller = budget(|_| {});
    feed(&mut controller, pushes(1e6, 0.5, 0));
    let control = controller.decide(10.0).unwrap();
    let found = control
        .workers
        .iter()
        .map(|worker| rho(worker.new_codec))
        .collect::<Vec<_>>();
    assert!(found.len() == 2 && found[0] > 5.0 * found[1], "{found:?}");
    assert_eq!(
        (control.revision, control.direction),
        (Revision(1), Direction::Aggressive)
    );
    assert!(
        control
            .workers
            .iter()
            .all(|worker| worker.compression_beneficial == Some(true))
    );
    // The mean of both is what the event shows.
    assert!((control.new_compression.unwrap() - (found[0] + found[1]) / 2.0).abs() < 1e-9);
    let controls = [0, 1].map(|worker| rho(controller.controls(WorkerId(worker)).codec));
    assert_eq!(controls.to_vec(), found);
    assert_eq!(
        controller.controls(WorkerId(9)).codec,
        topk(0.25),
        "one that is yet to come"
    );
}

#[test]
fn a_change_of_the_link_is_followed() {
    let mut controller = budget(|_| {});
    feed(&mut controller, pushes(1e6, 0.5, 0));
    controller.decide(10.0).unwrap();
    let before = rho(controller.controls(WorkerId(0)).codec);
    feed(&mut controller, pushes(1e5, 0.5, 1));
    controller.decide(20.0).unwrap();
    let after = rho(controller.controls(WorkerId(0)).codec);
    assert!(after < before / 3.0, "{before} {after}");
}

#[test]
fn an_alarm_of_the_guard_holds_everybody_up() {
    let mut controller = budget(|config| config.controller.max_factor_rho = 4.0);
    feed(&mut controller, pushes(1e6, 0.5, 0));
    controller.decide(10.0).unwrap();
    feed(&mut controller, pushes(1e6, 0.5, 1));
    feed(&mut controller, evals(&[1.0, 2.0]));
    let control = controller.decide(20.0).unwrap();
    assert!(
        control.reason.starts_with("backing off: rebound"),
        "{}",
        control.reason
    );
    assert_eq!((control.old_s_max, control.new_s_max), (4, 3));
    let least = control
        .workers
        .iter()
        .map(|worker| rho(worker.old_codec))
        .fold(1.0, f64::min);
    assert!(
        (control.rho_floor.unwrap() / (4.0 * least) - 1.0).abs() < 1e-9,
        "{control:?}"
    );
}

#[test]
fn the_budget_widens_the_bound_for_a_late_trainer() {
    let mut controller = budget(|_| {});
    let late = pushes(1e6, 0.5, 0).into_iter().map(|event| {
        changed(event, |update| {
            if update.worker_id == WorkerId(1) {
                update.decision = Decision::Rejected;
            }
        })
    });
    feed(&mut controller, late);
    let control = controller.decide(10.0).unwrap();
    assert!(
        control
            .reason
            .starts_with("a wider bound: 100 % of worker 1's pushes"),
        "{}",
        control.reason
    );
    assert_eq!((control.old_s_max, control.new_s_max), (4, 5));
    let unfit = &control.workers[1];
    assert!(
        !unfit.fits && unfit.reason.contains("does not fit this run"),
        "{unfit:?}"
    );
}

#[test]
fn compression_is_switched_off_where_it_does_not_pay() {
    // Dense uploads take as long as the encoder: a step is 10 % longer with compression.
    let mut controller = Controller::new(&config(|config| {
        config.controller.enabled = false;
        config.compression.auto = true;
    }));
    controller.observe(&start(1_000_000));
    let slow_encoder = pushes(1e9, 0.5, 0)
        .into_iter()
        .map(|event| changed(event, |update| update.encode_s = 0.2));
    feed(&mut controller, slow_encoder);
    let control = controller.decide(10.0).unwrap();
    assert_eq!(
        (control.policy.as_str(), control.workers[0].new_codec),
        ("none", Codec::Identity)
    );
    assert!(
        control.workers[0].reason.starts_with("compression does not pay"),
        "{:?}",
        control.workers[0]
    );
    assert_eq!(control.workers[0].compression_beneficial, Some(false));
    // Nor is it switched on again as long as nothing changed.
    feed(
        &mut controller,
        pushes(1e9, 0.5, 1).into_iter().map(|event| {
            changed(event, |update| {
                update.compression_mode = Some(Format::Identity);
            })
        }),
    );
    let control = controller.decide(20.0).unwrap();
    assert_eq!(control.workers[0].new_codec, Codec::Identity);
}

#[test]
fn on_a_thin_link_it_stays() {
    let mut controller = Controller::new(&config(|config| config.compression.auto = true));
    controller.observe(&start(1_000_000));
    feed(&mut controller, pushes(1e6, 0.5, 0));
    let control = controller.decide(10.0).unwrap();
    assert!(
        control
            .workers
            .iter()
            .all(|worker| worker.new_codec != Codec::Identity),
        "{control:?}"
    );
}

#[test]
fn decisions_may_come_by_versions() {
    let mut controller = Controller::new(&config(|config| config.controller.interval_versions = Some(10)));
    let at = |version: u64| changed(update(0, 10, 0.0), |update| update.version = Version(version));
    let mut due = |version: u64| {
        controller.observe(&at(version));
        controller.decide(0.0).is_some()
    };
    assert_eq!(
        [9, 10, 11, 19, 25, 29, 30].map(&mut due),
        [false, true, false, false, true, false, true]
    );
}

#[test]
fn the_training_loss_stands_in_only_where_nobody_evaluates() {
    let losses = |controller: &mut Controller| {
        for step in 0..40 {
            controller.observe(&changed(update(0, 10, f64::from(step) / 4.0), |update| {
                update.loss = if step < 20 { 1.0 } else { 2.0 };
            }));
        }
        controller.decide(10.0).unwrap()
    };
    let control = losses(&mut Controller::new(&config(|_| {})));
    assert_eq!(
        (control.loss_source, control.direction),
        (Some(LossSource::Train), Direction::Safer)
    );
    assert_eq!(control.reason, "instability, by training loss");
    let mut evaluated = Controller::new(&config(|_| {}));
    evaluated.observe(&Event::Join(Join {
        worker_id: None,
        role: "evaluator".into(),
        name: "e".into(),
        rejoined: false,
        elapsed_s: 0.0,
    }));
    let control = losses(&mut evaluated);
    assert_eq!((control.loss_source, control.loss_trend), (None, None));
}

fn by_hand(controller: &mut Controller, set: Override) -> Result<Control, String> {
    let operator = Operator {
        by: "me".into(),
        why: "to see".into(),
        set,
    };
    controller.set_by_hand(1.0, operator)
}

#[test]
fn what_is_set_by_hand_holds_until_the_next_decision_and_pinned_beyond() {
    let mut controller = Controller::new(&config(|_| {}));
    feed(&mut controller, pressure());
    let control = by_hand(
        &mut controller,
        Override {
            codec: Some(topk(0.4)),
            s_max: Some(8),
            ..Override::default()
        },
    );
    let control = control.unwrap();
    assert_eq!(
        (control.old_compression, control.new_compression),
        (Some(0.25), Some(0.4))
    );
    assert_eq!(
        (control.old_s_max, control.new_s_max, control.revision),
        (4, 8, Revision(1))
    );
    assert_eq!(control.reason, "set by hand by me: to see");
    // The window went on: the next decision sees the pushes from before.
    let next = controller.decide(10.0).unwrap();
    assert_eq!(
        (next.reason.as_str(), next.new_compression),
        ("stable+comm_pressure, no loss signal", Some(0.35))
    );

    by_hand(
        &mut controller,
        Override {
            codec: Some(topk(0.1)),
            s_max: Some(2),
            pin: Some(true),
            ..Override::default()
        },
    )
    .unwrap();
    feed(&mut controller, pressure());
    let kept = controller.decide(20.0).unwrap();
    assert_eq!((kept.new_compression, kept.new_s_max), (Some(0.1), 2));
    by_hand(
        &mut controller,
        Override {
            pin: Some(false),
            ..Override::default()
        },
    )
    .unwrap();
    feed(&mut controller, pressure());
    let freed = controller.decide(30.0).unwrap();
    assert_eq!((freed.new_compression, freed.new_s_max), (Some(0.05), 3));
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut controller = Controller::new(&config(|config| config.staleness.s_low = 2));
    feed(&mut controller, calm());
    let mut refused = |set: Override| by_hand(&mut controller, set).unwrap_err();
    let with = |change: fn(&mut Override)| {
        let mut set = Override::default();
        change(&mut set);
        set
    };
    assert!(refused(Override::default()).starts_with("nothing to set"));
    assert!(
        refused(with(|set| set.codec = Some(topk(0.01)))).starts_with("rho must lie between 0.05 and 0.5")
    );
    assert!(refused(with(|set| set.s_max = Some(1))).starts_with("s_max must lie between 2 and 10"));
    assert!(
        refused(with(
            |set| (set.worker_id, set.pin) = (Some(WorkerId(5)), Some(true))
        ))
        .contains("there are: 0")
    );
    assert!(
        refused(with(
            |set| (set.worker_id, set.s_max) = (Some(WorkerId(0)), Some(5))
        ))
        .starts_with("s_max is the server's")
    );
    assert_eq!(controller.controls(WorkerId(0)).revision, Revision(0));
    let mut unbounded = Controller::new(&config(|config| {
        config.staleness.enabled = false;
        config.controller.adapt_staleness = false;
    }));
    let error = by_hand(&mut unbounded, with(|set| set.s_max = Some(5))).unwrap_err();
    assert!(error.starts_with("there is no bound on staleness"), "{error}");
    let silent = Operator {
        by: " ".into(),
        why: "x".into(),
        set: with(|set| set.pin = Some(true)),
    };
    assert!(
        controller
            .set_by_hand(1.0, silent)
            .unwrap_err()
            .starts_with("who sets them must be said")
    );
}

#[test]
fn a_report_tells_what_holds_and_what_was_confirmed() {
    let mut controller = budget(|_| {});
    feed(&mut controller, pushes(1e6, 0.5, 0));
    controller.decide(10.0).unwrap();
    let report = controller.report(12.0);
    assert_eq!(
        (report.policy.as_str(), report.s_max, report.decisions.len()),
        ("budget", Some(4), 1)
    );
    let of = |worker: usize| {
        (
            report.workers[worker].revision,
            report.workers[worker].confirmed_revision,
        )
    };
    assert_eq!(of(1), (Revision(1), Revision(0)));
    feed(
        &mut controller,
        vec![changed(update(0, 1, 12.0), |update| {
            update.controls_revision = Revision(1);
        })],
    );
    assert_eq!(controller.report(13.0).workers[0].confirmed_revision, Revision(1));
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<report::Report>(&json).unwrap(), report);
}
