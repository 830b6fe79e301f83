//! What a pull is answered with under each `downlink.mode`.

use super::*;
use crate::config::{DownlinkDtype, DownlinkMode};

const LEN: usize = 400;

/// Two trainers; a push changes one entry in ten of 400.
fn bench(mode: DownlinkMode, change: impl FnOnce(&mut Config)) -> Bench {
    let spec = TensorSpec {
        name: "w".into(),
        shape: vec![LEN],
    };
    let layout = Arc::new(Layout::new(vec![spec]).unwrap());
    let mut bench = Bench::with(Some((layout, vec![0.5; LEN])), |config| {
        config.downlink.mode = mode;
        config.workload.num_workers = 2;
        config.workload.eval_interval = 3;
        change(config);
    });
    for session in 0..2 {
        let Input::Join {
            session: id,
            mut joining,
        } = joining(session, session, None)
        else {
            panic!("a join")
        };
        joining.layout = (**bench.server.layout().unwrap()).clone();
        bench.does(Input::Join { session: id, joining });
    }
    bench
}

fn sparse(bench: &Bench, id: u64) -> CheckedPayload {
    let layout = Arc::clone(bench.server.layout().unwrap());
    let values: Vec<f32> = (0..LEN).map(|i| ((i as u64 * 7 + id * 13) % 40) as f32).collect();
    let codec = Codec::TopK(crate::ids::Density::new(0.1).unwrap());
    let form = crate::codec::Form {
        packed: true,
        ..Default::default()
    };
    let payload = Encoder::new(Arc::clone(&layout), 0)
        .with_form(form)
        .encode(&values, codec, id);
    payload.unwrap().check(&layout).unwrap()
}

fn push(bench: &mut Bench, session: u64, id: u64) {
    let payload = sparse(bench, id);
    let base = bench.server.version();
    let header = PushHeader {
        format: payload.payload().format,
        payload_bytes: payload.len(),
        ..header(id, base.0)
    };
    let pushed = Box::new(Pushed {
        header,
        payload: Some(payload),
        decode_s: 0.0,
    });
    let said = bench.says(Input::Push {
        session: SessionId(session),
        pushed,
    });
    assert!(said[0].contains("Accepted"), "{said:?}");
}

#[test]
fn a_delta_has_what_others_pushed_and_names_what_the_worker_did() {
    let mut bench = bench(DownlinkMode::Delta, |_| {});
    assert_eq!(bench.pull(0, None), ["0: snapshot v0"]);
    assert_eq!(bench.pull(0, Some(0)), ["0: unchanged v0"]);
    push(&mut bench, 0, 1);
    push(&mut bench, 1, 1);
    push(&mut bench, 1, 2);
    assert_eq!(bench.pull(0, Some(0)), ["0: delta v0 to v3, 3 records, 1 own"]);
    assert_eq!(bench.pull(1, Some(1)), ["1: delta v1 to v3, 2 records, 2 own"]);
    assert_eq!(bench.pull(1, None), ["1: snapshot v3"]);
    let pull = Pull {
        known: Some((Generation(6), Version(1))),
    };
    let other_life = Input::Pull {
        session: SessionId(0),
        pull,
    };
    assert_eq!(bench.says(other_life), ["0: snapshot v3"]);
}

#[test]
fn who_is_too_far_behind_gets_all() {
    let mut bench = bench(DownlinkMode::Delta, |_| {});
    (1..=40).for_each(|id| push(&mut bench, 1, id));
    assert_eq!(bench.pull(0, Some(0)), ["0: snapshot v40"]);
    assert_eq!(bench.pull(0, Some(39)), ["0: delta v39 to v40, 1 records, 0 own"]);
}

#[test]
fn a_process_under_another_s_identity_is_sent_what_that_one_pushed() {
    let mut bench = bench(DownlinkMode::Delta, |_| {});
    push(&mut bench, 0, 1);
    let Input::Join { session, mut joining } = joining(5, 99, Some(0)) else {
        panic!("a join")
    };
    joining.layout = (**bench.server.layout().unwrap()).clone();
    bench.does(Input::Join { session, joining });
    assert_eq!(bench.pull(5, Some(0)), ["5: delta v0 to v1, 1 records, 0 own"]);
}

#[test]
fn where_every_entry_moves_there_is_no_delta() {
    let mut bench = bench(DownlinkMode::Delta, |config| config.optimizer.momentum = 0.9);
    push(&mut bench, 1, 1);
    assert_eq!(bench.pull(0, Some(0)), ["0: snapshot v1"]);
}

#[test]
fn trainers_share_a_view_and_an_evaluator_gets_the_parameters() {
    let mut bench = bench(DownlinkMode::Lossy, |config| config.downlink.interval = 2);
    assert_eq!(bench.pull(0, None), ["0: snapshot v0"]);
    push(&mut bench, 1, 1);
    assert_eq!(bench.pull(0, Some(0)), ["0: unchanged v0"]);
    push(&mut bench, 1, 2);
    push(&mut bench, 1, 3);
    assert_eq!(bench.pull(0, Some(0)), ["0: delta v0 to v2, 1 records, 0 own"]);
    assert_eq!(bench.pull(1, None), ["1: snapshot v2"]);
    assert_eq!(bench.pull(1, Some(2)), ["1: unchanged v2"]);
    let Input::Join { session, mut joining } = joining_as(Role::Evaluator, 9, 9) else {
        panic!("a join")
    };
    joining.layout = (**bench.server.layout().unwrap()).clone();
    bench.does(Input::Join { session, joining });
    assert_eq!(bench.pull(9, None), ["9: snapshot v3"]);
}

#[test]
fn an_evaluator_too_comes_by_deltas() {
    let mut bench = bench(DownlinkMode::Delta, |_| {});
    let Input::Join { session, mut joining } = joining_as(Role::Evaluator, 9, 9) else {
        panic!("a join")
    };
    joining.layout = (**bench.server.layout().unwrap()).clone();
    bench.does(Input::Join { session, joining });
    assert_eq!(bench.pull(9, None), ["9: snapshot v0"]);
    assert_eq!(bench.pull(9, Some(0)), Vec::<String>::new());
    push(&mut bench, 0, 1);
    push(&mut bench, 0, 2);
    let mut said = Vec::new();
    let payload = sparse(&bench, 3);
    let header = PushHeader {
        format: payload.payload().format,
        payload_bytes: payload.len(),
        ..header(3, 2)
    };
    let pushed = Pushed {
        header,
        payload: Some(payload),
        decode_s: 0.0,
    };
    said.extend(bench.says(Input::Push {
        session: SessionId(0),
        pushed: Box::new(pushed),
    }));
    assert_eq!(said[1..], ["9: delta v0 to v3, 3 records, 0 own"]);
    bench.report(9, 3, 0.5);
    assert!(bench.events.iter().any(|event| matches!(event, Event::Eval(_))));
}

#[test]
fn only_trainers_get_rounded_snapshots() {
    let mut bench = bench(DownlinkMode::Snapshot, |c| c.downlink.dtype = DownlinkDtype::Bf16);
    let mut rounded = |session, pull| {
        let mut out = Vec::new();
        let input = Input::Pull {
            session: SessionId(session),
            pull,
        };
        bench.server.handle(Duration::ZERO, input, &mut out);
        out.iter().any(|action| {
            matches!(
                action,
                Action::Answer {
                    answer: Answer::Snapshot { rounded: true, .. },
                    ..
                }
            )
        })
    };
    assert!(rounded(0, Pull { known: None }));
}
