use super::*;
use crate::codec::{Codec, Encoder, Form};
use crate::config::Downlink;
use crate::ids::{Density, Incarnation};
use crate::layout::TensorSpec;
use crate::parameters::ConcatChunks as _;
use proptest::prelude::*;

const LEN: usize = 200;
const READER: Incarnation = Incarnation(7);

fn layout() -> Arc<Layout> {
    let spec = |name: &str, len| TensorSpec {
        name: name.into(),
        shape: vec![len],
    };
    Arc::new(Layout::new(vec![spec("a", 30), spec("b", LEN - 30)]).unwrap())
}

/// What an encoder of this form makes of drawn values.
fn payload(seed: u64, packed: bool) -> Payload {
    let mut state = seed;
    let values: Vec<f32> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as f32 / 1e6 - 8.0
    })
    .take(LEN)
    .collect();
    let form = Form {
        packed,
        ..Form::default()
    };
    let codec = Codec::TopK(Density::new(0.05).unwrap());
    let mut encoder = Encoder::new(layout(), seed).with_form(form);
    encoder.encode(&values, codec, 1).unwrap()
}

fn step(version: u64, payload: Payload) -> Step {
    Step {
        version: Version(version),
        factor: -0.125 * version as f32,
        author: Some((Incarnation(version % 3 + 6), PushId(version))),
        payload,
    }
}

fn make_all(records: Vec<Record>, parameters: &mut Parameters) {
    for Record { how, payload, .. } in records {
        Change::new(how, payload.check(&layout()).unwrap()).make(parameters);
    }
}

fn delta(records: Vec<Record>, parameters: &Parameters) -> Delta {
    Delta {
        generation: Generation(1),
        base: Version(0),
        version: Version(1),
        records,
        whole: Some((layout(), parameters.snapshot())),
    }
}

proptest! {
    #[test]
    fn from_any_version_a_delta_leads_to_the_parameters_to_the_bit(
        seeds in prop::collection::vec((any::<u64>(), any::<bool>()), 1..12),
        most in 0u64..2_000,
        chunk_len in 1usize..=LEN,
    ) {
        let layout = layout();
        let mut theta = Parameters::new(&[0.5; LEN], chunk_len);
        let mut history = History::new(Version(0), most);
        let mut versions = vec![theta.clone()];
        for (version, (seed, packed)) in (1..).zip(seeds) {
            let payload = payload(seed, packed);
            theta.add_scaled(-0.125 * version as f32, &payload.clone().check(&layout).unwrap());
            history.push(step(version, payload));
            versions.push(theta.clone());
        }
        let mut known_from_here = false;
        for (base, held) in (0..).zip(versions) {
            let Some(records) = history.since(Version(base), READER) else {
                prop_assert!(!known_from_here, "a gap at version {}", base);
                continue;
            };
            known_from_here = true;
            let mut replayed = held.clone();
            make_all(records.clone(), &mut replayed);
            prop_assert_eq!(replayed.to_vec(), theta.to_vec());
            let short = delta(records.clone(), &theta).shortest();
            prop_assert!(short.payload_bytes() <= payload_bytes(&records));
            let mut shortened = held;
            make_all(short.records, &mut shortened);
            prop_assert_eq!(shortened.to_vec(), theta.to_vec());
        }
        prop_assert!(known_from_here, "from the present version there is always a way");
    }

    #[test]
    fn view_and_what_it_lacks_are_the_parameters(
        seeds in prop::collection::vec(any::<u64>(), 1..20),
        interval in 1u64..4,
        rho in 0.01f64..0.5,
    ) {
        let layout = layout();
        let settings = Downlink { rho, interval, ..Downlink::default() };
        let mut broadcast = Broadcast::new(&settings, Arc::clone(&layout), (Version(0), 100_000)).unwrap();
        let mut theta = Parameters::new(&[1.0; LEN], 64);
        // One trainer reads each broadcast, another all of them at the end.
        let (mut held, mut at) = (theta.clone(), Version(0));
        let early = theta.clone();
        for (version, seed) in (1..).zip(seeds) {
            let push = payload(seed, true).check(&layout).unwrap();
            theta.add_scaled(-0.01, &push);
            push.add_scaled_to(-0.01, broadcast.pending_mut());
            broadcast.moved(Version(version));
            make_all(broadcast.since(at).unwrap(), &mut held);
            at = broadcast.at();
            prop_assert_eq!(at.0, version - version % interval);
            let view = broadcast.view(&theta).concat_chunks();
            for (held, view) in held.to_vec().iter().zip(view) {
                prop_assert!((held - view).abs() < 1e-4, "{} beside {}", held, view);
            }
        }
        let mut late = early;
        make_all(broadcast.since(Version(0)).unwrap(), &mut late);
        prop_assert_eq!(late.to_vec(), held.to_vec());
    }
}

#[test]
fn own_pushes_are_named_and_count_no_bytes() {
    let mut history = History::new(Version(0), u64::MAX);
    (1..=4).for_each(|version| history.push(step(version, payload(version, true))));
    let records = history.since(Version(0), READER).unwrap();
    let own = records.iter().map(|record| record.own).collect::<Vec<_>>();
    assert_eq!(own, [Some(PushId(1)), None, None, Some(PushId(4))]);
    let all: u64 = records.iter().map(|r| r.payload.bytes.len() as u64).sum();
    assert!(payload_bytes(&records) < all);
}

#[test]
fn the_same_entries_over_and_over_are_sent_once() {
    let layout = layout();
    let mut history = History::new(Version(0), u64::MAX);
    let mut theta = Parameters::new(&[0.5; LEN], LEN);
    for version in 1..=20 {
        let payload = payload(3, true);
        theta.add_scaled(-0.125 * version as f32, &payload.clone().check(&layout).unwrap());
        history.push(step(version, payload));
    }
    let short = delta(history.since(Version(0), READER).unwrap(), &theta).shortest();
    assert_eq!(short.records.len(), 1);
    assert_eq!(short.records[0].how, How::Set);
}

#[test]
fn after_a_move_of_all_entries_no_delta_leads_across() {
    let mut history = History::new(Version(0), u64::MAX);
    history.push(step(1, payload(1, true)));
    history.begin_anew(Version(2));
    history.push(step(3, payload(3, true)));
    assert_eq!(history.since(Version(1), READER), None);
    assert_eq!(history.since(Version(2), READER).unwrap().len(), 1);
    assert_eq!(history.since(Version(3), READER).unwrap(), []);
}

#[test]
fn a_round_is_kept_or_dropped_whole() {
    let bytes = payload(1, true).bytes.len() as u64;
    let mut history = History::new(Version(0), 3 * bytes + bytes / 2);
    (0..3).for_each(|_| history.push(step(1, payload(1, true))));
    assert_eq!(history.since(Version(0), READER).unwrap().len(), 3);
    history.push(step(2, payload(1, true)));
    assert_eq!(history.since(Version(0), READER), None);
    assert_eq!(history.since(Version(1), READER).unwrap().len(), 1);
}

#[test]
fn a_difference_beyond_all_floats_begins_anew() {
    let mut broadcast = Broadcast::new(&Downlink::default(), layout(), (Version(0), 1_000)).unwrap();
    broadcast.pending_mut()[3] = f32::INFINITY;
    broadcast.moved(Version(1));
    assert_eq!(broadcast.since(Version(0)), None);
    assert_eq!(broadcast.since(Version(1)).unwrap(), []);
}
