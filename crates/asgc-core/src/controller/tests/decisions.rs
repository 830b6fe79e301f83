//! Windows and what is decided on them.

use super::*;

/// How a decision reads: `rho 0.25 -> 0.3, s_max 4 -> 3: instability`.
fn show(control: &Control) -> String {
    let strength = |value: Option<f64>| value.map_or("-".into(), |value| value.to_string());
    let Control {
        old_s_max, new_s_max, ..
    } = control;
    format!(
        "{} -> {}, s_max {old_s_max} -> {new_s_max}: {}",
        strength(control.old_compression),
        strength(control.new_compression),
        control.reason
    )
}

fn check_with(config: &Config, windows: &[Vec<Event>], expect: &[&str]) {
    let found = decide(config, windows);
    assert_eq!(found.iter().map(show).collect::<Vec<_>>(), expect);
}

fn check(window: Vec<Event>, expect: &str) {
    check_with(&config(|_| {}), &[window], &[expect]);
}

fn both(mut one: Vec<Event>, other: Vec<Event>) -> Vec<Event> {
    one.extend(other);
    one
}

const SAFER: &str = "0.25 -> 0.3, s_max 4 -> 3: instability";
const AGGRESSIVE: &str = "0.25 -> 0.2, s_max 4 -> 5: stable+comm_pressure";
const HOLD: &str = "0.25 -> 0.25, s_max 4 -> 4: hold";

#[test]
fn threshold_holds_at_its_tolerances_and_moves_beyond() {
    let losses = |losses: &[f64]| both(pressure(), evals(losses));
    // Tolerances: trend 0.01, rebound 0.02. These numbers are exact in binary where it matters.
    check(losses(&[0.0, 0.01]), AGGRESSIVE);
    check(losses(&[0.0, 0.0101]), SAFER);
    check(losses(&[0.0, 0.02, 0.0]), AGGRESSIVE);
    check(losses(&[0.0, 0.04, 0.0]), AGGRESSIVE);
    check(losses(&[0.0, 0.041, 0.0]), SAFER);
    check(losses(&[2.3, 0.5, 0.4]), AGGRESSIVE);
    check(losses(&[0.4, f64::NAN]), SAFER);
    // Pressure: 1e6 bytes a second.
    let bytes = |bytes| {
        both(
            evals(&[1.0, 1.0]),
            vec![update(0, bytes, 0.0), update(0, 0, 10.0)],
        )
    };
    check(bytes(10_000_000), AGGRESSIVE);
    check(bytes(9_999_999), HOLD);
}

#[test]
fn too_many_rejections_are_an_instability() {
    let rejecting = |bad: usize| {
        let pushes = (0..20).map(|i| if i < bad { rejected(1.0) } else { update(0, 0, 2.0) });
        both(evals(&[1.0, 1.0]), pushes.collect())
    };
    // 0.15 of 20 is 3.
    check(rejecting(3), HOLD);
    check(rejecting(4), SAFER);
}

#[test]
fn an_absent_loss_is_not_a_loss_that_stands_still() {
    let absent = |line: &str| format!("{line}, no loss signal");
    check(pressure(), &absent(AGGRESSIVE));
    check(both(pressure(), evals(&[9.0])), &absent(AGGRESSIVE));
    check(calm(), &absent(HOLD));
    check(vec![rejected(1.0)], &absent(SAFER));
    check(
        vec![],
        "0.25 -> 0.25, s_max 4 -> 4: hold (no pushes), no loss signal",
    );
    check(evals(&[0.0, 9.0]), "0.25 -> 0.25, s_max 4 -> 4: hold (no pushes)");
    let control = &decide(&config(|_| {}), &[calm()])[0];
    assert_eq!((control.loss_trend, control.loss_variability), (None, None));
    let line = serde_json::to_string(&Event::Control(control.clone())).unwrap();
    assert!(
        line.contains(r#""loss_trend":null,"loss_variability":null"#),
        "{line}"
    );
}

#[test]
fn an_event_has_all_that_went_in_and_came_out() {
    let window = both(evals(&[1.0, 1.5]), vec![update(3, 50, 5.0), update(0, 30, 9.0)]);
    let expect = r#"{"event":"control","elapsed_s":10.0,"policy":"threshold","loss_trend":0.5,"loss_variability":0.5,"mean_staleness":1.5,"rejected_frac":0.0,"bytes_per_s":20.0,"updates_per_s":0.5,"residual_norm_var":0.0,"compression_mode":"topk","old_compression":0.25,"new_compression":0.3,"old_s_max":4,"new_s_max":3,"direction":"safer","reason":"instability","revision":1,"loss_source":"test","accuracy_drop":0.0,"rho_floor":null,"workers":[{"worker_id":0,"old_codec":"topk(rho=0.25)","new_codec":"topk(rho=0.3)","reason":"instability","pushes":2,"rejected_frac":0.0,"link":null,"residual_ratio":null,"achieved_updates_per_s":0.2,"predicted_updates_per_s":null,"dense_updates_per_s":null,"compression_beneficial":null,"fits":true}]}"#;
    let event = Event::Control(decide(&config(|_| {}), &[window]).remove(0));
    assert_eq!(serde_json::to_string(&event).unwrap(), expect);
    assert_eq!(serde_json::from_str::<Event>(expect).unwrap(), event);
}

#[test]
fn the_window_is_emptied_after_each_decision() {
    let windows = [both(calm(), evals(&[1.0])), both(calm(), evals(&[2.0])), vec![]];
    check_with(
        &config(|_| {}),
        &windows,
        &[
            "0.25 -> 0.25, s_max 4 -> 4: hold, no loss signal",
            "0.25 -> 0.25, s_max 4 -> 4: hold, no loss signal",
            "0.25 -> 0.25, s_max 4 -> 4: hold (no pushes), no loss signal",
        ],
    );
}

#[test]
fn persistence_waits_for_unstable_windows_in_a_row() {
    let config = config(|config| config.controller.instability_persistence = 2);
    let (bad, good) = (
        || both(calm(), evals(&[1.0, 2.0])),
        || both(calm(), evals(&[1.0, 1.0])),
    );
    check_with(
        &config,
        &[bad(), good(), bad(), vec![], bad(), bad()],
        &[
            "0.25 -> 0.25, s_max 4 -> 4: hold (unstable 1/2)",
            HOLD,
            "0.25 -> 0.25, s_max 4 -> 4: hold (unstable 1/2)",
            // Nothing was seen, for or against.
            "0.25 -> 0.25, s_max 4 -> 4: hold (no pushes), no loss signal",
            SAFER,
            "0.3 -> 0.35, s_max 3 -> 2: instability",
        ],
    );
}

fn only(a: f64, b: f64, c: f64, d: f64) -> config::ScoreWeights {
    config::ScoreWeights { a, b, c, d }
}

#[test]
fn the_score_weighs_and_has_a_dead_band() {
    let scored = |change: fn(&mut config::Controller), window: Vec<Event>, expect: &str| {
        let config = config(|config| {
            config.controller.policy = ControlPolicy::Score;
            config.controller.comm_pressure_min = 1000.0;
            change(&mut config.controller);
        });
        check_with(&config, &[window], &[expect]);
    };
    // R = 1 - bytes_per_s / 1000, with a loss that stands still.
    let bytes = |bytes| {
        both(
            evals(&[1.0, 1.0]),
            vec![update(0, bytes, 0.0), update(0, 0, 10.0)],
        )
    };
    scored(|_| {}, bytes(7_500), "0.25 -> 0.25, s_max 4 -> 4: hold (R=0.250)");
    scored(|_| {}, bytes(7_490), "0.25 -> 0.3, s_max 4 -> 3: safer (R=0.251)");
    scored(
        |_| {},
        bytes(12_500),
        "0.25 -> 0.25, s_max 4 -> 4: hold (R=-0.250)",
    );
    scored(
        |_| {},
        bytes(12_510),
        "0.25 -> 0.2, s_max 4 -> 5: aggressive (R=-0.251)",
    );
    // Each term by its own weight: 0.02/0.01, 0.02/0.02, 1 - 1000/1000 and 0.5/0.15.
    let all = || {
        let rises = evals(&[0.0, 0.02]);
        both(rises, vec![update(0, 10_000, 0.0), rejected(10.0)])
    };
    scored(
        |c| c.score_weights = only(1.0, 0.0, 0.0, 0.0),
        all(),
        "0.25 -> 0.3, s_max 4 -> 3: safer (R=2.000)",
    );
    scored(
        |c| c.score_weights = only(0.0, 3.0, 0.0, 0.0),
        all(),
        "0.25 -> 0.3, s_max 4 -> 3: safer (R=3.000)",
    );
    scored(
        |c| c.score_weights = only(0.0, 0.0, 9.0, 0.0),
        all(),
        "0.25 -> 0.25, s_max 4 -> 4: hold (R=0.000)",
    );
    scored(
        |c| c.score_weights = only(0.0, 0.0, 0.0, 0.3),
        all(),
        "0.25 -> 0.3, s_max 4 -> 3: safer (R=1.000)",
    );
    // An absent loss contributes nothing; persistence has no say.
    scored(
        |c| c.instability_persistence = 9,
        calm(),
        "0.25 -> 0.3, s_max 4 -> 3: safer (R=0.998), no loss signal",
    );
    scored(
        |_| {},
        vec![],
        "0.25 -> 0.25, s_max 4 -> 4: hold (no pushes), no loss signal",
    );
    // Tolerances of 0 divide by 1e-9.
    scored(
        |c| (c.worsen_tol, c.variability_tol) = (0.0, 0.0),
        both(calm(), evals(&[1.0, 0.0])),
        "0.25 -> 0.2, s_max 4 -> 5: aggressive (R=-999999999.002)",
    );
    let diverged = config(|config| config.controller.policy = ControlPolicy::Score);
    let found = &decide(&diverged, &[both(calm(), evals(&[1.0, f64::NAN]))])[0];
    assert_eq!(found.direction, Direction::Safer);
}

#[test]
fn steps_end_at_the_bounds() {
    let rho = |window: fn() -> Vec<Event>, windows: usize| {
        let windows = vec![window(); windows];
        decide(&config(|_| {}), &windows)
            .iter()
            .map(|control| (control.new_compression.unwrap(), control.new_s_max))
            .collect::<Vec<_>>()
    };
    let down = rho(pressure, 7);
    // To the last digit: 0.25 - 0.05 - 0.05 is 0.15000000000000002 in binary.
    assert_eq!(
        down,
        [
            (0.2, 5),
            (0.15, 6),
            (0.1, 7),
            (0.05, 8),
            (0.05, 9),
            (0.05, 10),
            (0.05, 10)
        ]
    );
    let up = rho(|| both(calm(), evals(&[1.0, 2.0])), 6);
    assert_eq!(up, [(0.3, 3), (0.35, 2), (0.4, 2), (0.45, 2), (0.5, 2), (0.5, 2)]);
}

#[test]
fn each_codec_moves_what_it_has() {
    let with = |mode, bits| {
        config(|config| {
            (config.compression.mode, config.compression.bits) = (mode, bits);
        })
    };
    let unstable = || both(calm(), evals(&[1.0, 2.0]));
    let quantize = |bits| with(CompressionMode::Quantize, bits);
    check_with(
        &quantize(7),
        &[unstable()],
        &["7 -> 8, s_max 4 -> 3: instability"],
    );
    check_with(
        &quantize(8),
        &[unstable()],
        &["8 -> 8, s_max 4 -> 3: instability"],
    );
    let lower = [
        "3 -> 2, s_max 4 -> 5: stable+comm_pressure, no loss signal",
        "2 -> 2, s_max 5 -> 6: stable+comm_pressure, no loss signal",
    ];
    check_with(&quantize(3), &[pressure(), pressure()], &lower);
    let identity = with(CompressionMode::Identity, 8);
    check_with(&identity, &[unstable()], &["- -> -, s_max 4 -> 3: instability"]);
    assert_eq!(decide(&identity, &[unstable()])[0].revision, Revision(0));
}

#[test]
fn either_knob_can_be_held() {
    let still = config(|config| config.controller.adapt_compression = false);
    let line = "0.25 -> 0.25, s_max 4 -> 5: stable+comm_pressure, no loss signal";
    check_with(&still, &[pressure()], &[line]);
    assert_eq!(decide(&still, &[pressure()])[0].revision, Revision(0));
    let fixed = config(|config| config.controller.adapt_staleness = false);
    let line = "0.25 -> 0.2, s_max 4 -> 4: stable+comm_pressure, no loss signal";
    check_with(&fixed, &[pressure()], &[line]);
}

#[test]
fn revisions_count_changes_of_the_codec_only() {
    let found = decide(&config(|_| {}), &[pressure(), calm(), pressure()]);
    let revisions = found.iter().map(|control| control.revision.0).collect::<Vec<_>>();
    assert_eq!(revisions, [1, 1, 2]);
    // At its bound the codec does not change any more, though s_max does.
    let found = decide(&config(|_| {}), &vec![pressure(); 6]);
    assert_eq!(found[5].revision, Revision(4));
}

#[test]
fn decisions_are_due_at_multiples_of_the_interval() {
    let mut controller = Controller::new(&config(|_| {}));
    let mut due = |elapsed_s| controller.decide(elapsed_s).is_some();
    assert_eq!(
        [0.0, 9.999, 10.0, 10.0, 19.9].map(&mut due),
        [false, false, true, false, false]
    );
    // A late one leaves out those that it missed, and does not shift those to come.
    assert_eq!([47.0, 47.1, 49.9, 50.0].map(&mut due), [true, false, false, true]);
    for (elapsed_s, interval_s) in [(0.3, 0.1), (0.7, 0.1), (1e9, 0.1), (30.0, 30.0)] {
        let next = next_due(elapsed_s, interval_s);
        assert!(
            next > elapsed_s && next <= elapsed_s + 1.01 * interval_s,
            "{next}"
        );
    }
}

#[test]
fn switched_off_there_is_none() {
    let mut controller = Controller::new(&Config::default());
    assert!(!controller.is_on());
    assert_eq!(controller.decide(1e6), None);
}
