//! The choice for one trainer, rule by rule.

use super::*;
use crate::codec::Format;
use crate::controller::links::Links;
use crate::controller::tests::{START, changed, config, update};
use crate::event::{Decision, Event};
use crate::ids::{Bits, WorkerId};
use proptest::prelude::*;

/// A trainer with a million parameters that computes for 0.1 s.
#[derive(Clone, Copy)]
struct Trainer {
    goodput: f64,
    encode_s: f64,
    residual_ratio: f64,
    staleness: u64,
    rejected: bool,
}

const CALM: Trainer = Trainer {
    goodput: 4e6,
    encode_s: 0.0,
    residual_ratio: 1.0,
    staleness: 0,
    rejected: false,
};

const PARAMETERS: u64 = 1_000_000;

fn links(trainer: Trainer) -> Links {
    let mut links = Links::default();
    links.fold(&Event::RunStart(crate::event::RunStart {
        parameters: PARAMETERS,
        ..serde_json::from_str(START).unwrap()
    }));
    for push in 0..20 {
        links.fold(&changed(
            update(trainer.staleness, 800_000, f64::from(push)),
            |update| {
                update.compression_mode = Some(Format::TopK);
                (update.compute_s, update.encode_s) = (0.1, trainer.encode_s);
                (update.upload_bytes, update.upload_s) = (Some(800_000), Some(8e5 / trainer.goodput));
                (update.rtt_s, update.residual_norm) = (Some(0.0), trainer.residual_ratio);
                // One step after the other, with nothing in between.
                update.elapsed_s = f64::from(push) * (0.1 + trainer.encode_s + 8e5 / trainer.goodput);
                if trainer.rejected {
                    update.decision = Decision::Rejected;
                }
            },
        ));
    }
    links
}

fn settings(change: impl FnOnce(&mut Controller)) -> Controller {
    config(|config| {
        config.controller.rho_bounds = [0.001, 0.5];
        config.controller.comm_share_max = 0.2;
        // So that one decision leads all the way.
        config.controller.max_factor_rho = 1e12;
        change(&mut config.controller);
    })
    .controller
}

fn keeping(rho: f64) -> Codec {
    Codec::TopK(Density::new(rho).unwrap())
}

fn chosen(trainer: Trainer, change: impl FnOnce(&mut Controller), at: Codec, floor: f64) -> (String, String) {
    let links = links(trainer);
    let line = links.get(WorkerId(0)).unwrap();
    let choice = choose(&settings(change), line, (keeping(0.25), at), floor);
    (choice.codec.to_string(), choice.reason)
}

fn check(trainer: Trainer, change: impl FnOnce(&mut Controller), (codec, reason): (&str, &str)) {
    let (found, why) = chosen(trainer, change, keeping(0.1), 0.001);
    assert!(found == codec && why.starts_with(reason), "{found}: {why}");
}

#[test]
fn the_link_decides() {
    // 0.2 of a step is 0.25 of what is not uploading: 25 ms, 100 kB at 4 MB/s.
    check(
        CALM,
        |_| {},
        ("topk(rho=0.0125)", "the link's share, upload 20 % of a step"),
    );
    let thick = Trainer { goodput: 4e7, ..CALM };
    check(thick, |_| {}, ("topk(rho=0.125)", "the link's share"));
    let free = Trainer { goodput: 4e8, ..CALM };
    check(free, |_| {}, ("identity", "the link bears everything"));
    let thin = Trainer { goodput: 4e4, ..CALM };
    check(
        thin,
        |_| {},
        ("topk(rho=0.001)", "at the lower bound, upload 67 %"),
    );
}

#[test]
fn what_gains_nothing_is_not_done() {
    // Dense: 0.1 + 0.1 s. Compressed, even to nothing: 0.1 + 0.2 s.
    let slow_encoder = Trainer {
        goodput: 4e7,
        encode_s: 0.2,
        ..CALM
    };
    check(slow_encoder, |_| {}, ("identity", "compressing gains nothing"));
}

#[test]
fn a_late_trainer_gets_half_of_the_share() {
    let late = Trainer {
        rejected: true,
        ..CALM
    };
    check(late, |_| {}, ("topk(rho=0.00556)", "late: 100 % rejected"));
    check(
        late,
        |c| c.reject_frac_max = 1.0,
        ("topk(rho=0.0125)", "the link's share"),
    );
}

#[test]
fn floors_hold_it_up() {
    let stale = Trainer { staleness: 9, ..CALM };
    // N = (1 - rho)/rho * 10 <= 90.
    check(
        stale,
        |c| c.noise_max = 90.0,
        ("topk(rho=0.1)", "held up by staleness"),
    );
    let (codec, why) = chosen(CALM, |_| {}, keeping(0.1), 0.3);
    assert!(
        codec == "topk(rho=0.3)" && why.starts_with("held up by the guard"),
        "{codec}: {why}"
    );
}

#[test]
fn a_large_residual_holds_and_then_backs_off() {
    let with = |residual_ratio| Trainer {
        residual_ratio,
        ..CALM
    };
    check(with(50.0), |_| {}, ("topk(rho=0.0125)", "the link's share"));
    check(
        with(51.0),
        |_| {},
        ("topk(rho=0.1)", "held: the residual is large"),
    );
    check(
        with(101.0),
        |_| {},
        ("topk(rho=0.12)", "backing off: the residual is large"),
    );
}

#[test]
fn what_small_payloads_say_of_large_ones_is_not_taken_at_their_word() {
    let free = Trainer { goodput: 4e8, ..CALM };
    let from = |rho| chosen(free, |c| c.max_factor_rho = 16.0, keeping(rho), 0.001).0;
    assert_eq!(
        [0.01, 0.2, 0.25].map(from),
        ["topk(rho=0.02)", "topk(rho=0.4)", "identity"]
    );
}

#[test]
fn steps_are_bounded_and_small_ones_not_made() {
    check(
        CALM,
        |c| c.max_factor_rho = 4.0,
        ("topk(rho=0.025)", "the link's share"),
    );
    assert_eq!(chosen(CALM, |_| {}, keeping(0.0115), 0.001).0, "topk(rho=0.0115)");
    // Back from no compression: half of the entries is as many bytes.
    assert_eq!(
        chosen(CALM, |c| c.max_factor_rho = 4.0, Codec::Identity, 0.001).0,
        "topk(rho=0.125)"
    );
}

#[test]
fn nothing_is_chosen_before_it_is_measured() {
    let choice = choose(
        &settings(|_| {}),
        &Line::default(),
        (keeping(0.25), keeping(0.2)),
        0.001,
    );
    assert_eq!(
        (choice.codec, choice.reason.as_str()),
        (keeping(0.2), "not measured yet")
    );
}

#[test]
fn quantize_is_on_or_off() {
    let bits = Codec::Quantize(Bits::new(8).unwrap());
    let chosen = |trainer, at| {
        let links = links(trainer);
        choose(
            &settings(|_| {}),
            links.get(WorkerId(0)).unwrap(),
            (bits, at),
            0.001,
        )
        .codec
    };
    assert_eq!(chosen(CALM, Codec::Identity), bits);
    assert_eq!(chosen(Trainer { goodput: 4e8, ..CALM }, bits), Codec::Identity);
}

#[test]
fn who_does_not_fit() {
    let fitting = |rejected| fits(links(Trainer { rejected, ..CALM }).get(WorkerId(0)).unwrap());
    assert!(fitting(false) && !fitting(true) && fits(&Line::default()));
}

proptest! {
    #[test]
    fn whatever_was_measured_the_bounds_hold(
        goodput in 1e2..1e10f64,
        encode_s in 0.0..1.0f64,
        residual_ratio in 0.0..1e4f64,
        staleness in 0u64..100,
        rejected: bool,
        at in 0.001..=0.5f64,
        floor in 0.001..=0.5f64,
        factor in 1.1..10.0f64,
    ) {
        let trainer = Trainer { goodput, encode_s, residual_ratio, staleness, rejected };
        let links = links(trainer);
        let settings = settings(|c| c.max_factor_rho = factor);
        let choice = choose(&settings, links.get(WorkerId(0)).unwrap(), (keeping(0.25), keeping(at)), floor);
        match choice.codec {
            Codec::Identity => {}
            Codec::TopK(rho) => {
                prop_assert!((0.001..=0.5).contains(&rho.get()));
                // Three digits round by up to half a percent.
                prop_assert!(rho.get() <= (at * factor.powf(0.25) * 1.006).max(0.001) && rho.get() * factor * 1.006 >= at, "{at} {rho:?}");
            }
            Codec::Quantize(_) | Codec::Sign => prop_assert!(false),
        }
    }
}
