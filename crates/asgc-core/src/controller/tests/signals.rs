//! What a window says.

use super::*;
use crate::controller::window::Signals;

fn signals(events: &[Event]) -> Signals {
    let mut window = Window::default();
    events.iter().for_each(|event| window.fold(event));
    window.signals(true)
}

fn check_losses(losses: &[f64], expect: Option<(f64, f64)>) {
    let found = signals(&evals(losses)).loss;
    assert_eq!(found.map(|loss| (loss.trend, loss.rebound)), expect, "{losses:?}");
}

#[test]
fn the_rebound_is_the_mean_rise_and_no_fall_counts() {
    check_losses(&[], None);
    check_losses(&[2.0], None);
    check_losses(&[2.0, 2.0], Some((0.0, 0.0)));
    // A fast first descent has a large spread, and is none of an instability.
    check_losses(&[2.5, 0.5, 0.25], Some((-2.25, 0.0)));
    check_losses(&[1.0, 1.5], Some((0.5, 0.5)));
    check_losses(&[1.0, 0.5, 1.0, 0.5, 0.75], Some((-0.25, 0.1875)));
    check_losses(&[1.0, 1.5, 1.0], Some((0.0, 0.25)));
}

#[test]
fn a_diverged_loss_is_a_rise_that_can_be_written_down() {
    let huge = window::DIVERGED_LOSS;
    for bad in [f64::NAN, f64::INFINITY, f64::MAX] {
        check_losses(&[1.0, bad], Some((huge, huge)));
        check_losses(&[bad, bad], Some((huge, huge)));
        check_losses(&[bad, 1.0], Some((1.0 - huge, 0.0)));
    }
}

#[test]
fn losses_are_in_the_order_of_versions_not_of_reports() {
    let late = [eval(3, 0.5), eval(1, 2.0), eval(2, 1.0)];
    assert_eq!(
        signals(&late).loss,
        Some(window::LossSignals {
            trend: -1.5,
            rebound: 0.0
        })
    );
}

#[test]
fn pushes_are_counted_whatever_became_of_them() {
    let found = signals(&[
        update(1, 100, 20.0),
        changed(rejected(22.0), |update| update.payload_bytes = 200),
        update(2, 300, 24.0),
    ]);
    assert_eq!((found.pushes, found.mean_staleness), (3, 4.0));
    assert_eq!(found.rejected_frac, 1.0 / 3.0);
    assert_eq!((found.bytes_per_s, found.updates_per_s), (150.0, 0.75));
}

#[test]
fn rates_are_over_a_second_at_least() {
    let at_once = [update(0, 100, 7.0), update(0, 100, 7.5)];
    assert_eq!(
        (signals(&at_once).bytes_per_s, signals(&at_once).updates_per_s),
        (200.0, 2.0)
    );
    let none = signals(&[]);
    assert_eq!((none.pushes, none.bytes_per_s, none.rejected_frac), (0, 0.0, 0.0));
    // An evaluation counts as of its report, not of its version.
    let found = signals(&[eval(1, 1.0), update(0, 100, 9.0)]);
    assert_eq!(found.bytes_per_s, 25.0);
}

#[test]
fn sums_do_not_wrap_and_the_variance_is_a_number() {
    let liar = |update: &mut Update| {
        update.payload_bytes = u64::MAX;
        update.staleness = Staleness(u64::MAX);
    };
    let found = signals(&[changed(rejected(1.0), liar), changed(rejected(2.0), liar)]);
    assert_eq!(found.bytes_per_s, u64::MAX as f64);
    let norms = |norms: &[f64]| {
        let events = norms
            .iter()
            .map(|&norm| changed(update(0, 0, 0.0), |update| update.residual_norm = norm));
        signals(&events.collect::<Vec<_>>()).residual_norm_var
    };
    assert_eq!(norms(&[]), 0.0);
    assert_eq!(norms(&[3.0]), 0.0);
    assert_eq!(norms(&[1.0, 3.0]), 1.0);
    assert_eq!(norms(&[1e9 + 1.0, 1e9 + 3.0]), 1.0);
    assert_eq!(norms(&[1.0, f64::NAN, 3.0]), 1.0);
    assert!(norms(&[1e300, -1e300]).is_finite());
}
