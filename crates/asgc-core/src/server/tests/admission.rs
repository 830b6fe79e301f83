//! Who may join, as whom; initial parameters; when the run begins.

use super::*;
use crate::initial::{Init, Recipe};

fn joining_with(session: u64, layout: Layout) -> Input {
    let Input::Join { session, mut joining } = joining(session, session, None) else {
        unreachable!()
    };
    joining.layout = layout;
    Input::Join { session, joining }
}

fn initialise(session: u64, values: &[f32]) -> Input {
    Input::Initialise {
        session: SessionId(session),
        values: values.to_vec(),
    }
}

#[test]
fn another_model_is_refused_naming_the_tensor() {
    let mut bench = Bench::running(1, |_| {});
    assert_eq!(
        bench.does(joining_with(1, layout(3))),
        [
            "1: refused: the layouts differ: tensor 0 is `w` [3], but this run trains `w` [2]; both sides need \
             the same model (workload.model)"
        ]
    );
}

#[test]
fn a_model_beyond_the_limit_is_refused() {
    let mut bench = Bench::with(None, |config| config.server.max_parameters = 9);
    let [refused] = &bench.does(joining_with(0, layout(10)))[..] else {
        panic!("one action")
    };
    assert!(
        refused.contains("10 parameters, more than server.max_parameters = 9"),
        "{refused}"
    );
    assert_eq!(bench.does(joining_with(1, layout(9))), ["1: worker 0, asked"]);
}

#[test]
fn a_wrong_model_that_leaves_does_not_lock_the_others_out() {
    let mut bench = Bench::with(None, |_| {});
    bench.does(joining_with(0, layout(3)));
    assert!(bench.join(1)[0].contains("refused"));
    bench.leave(0);
    assert_eq!(bench.join(2), ["2: worker 1, asked"]);
}

#[test]
fn a_sync_run_has_as_many_trainers_as_it_expects() {
    let mut bench = Bench::running(2, |config| config.workload.sync = true);
    let [refused] = &bench.join(2)[..] else {
        panic!("one action")
    };
    assert!(refused.contains("workload.num_workers = 2"), "{refused}");
    assert!(bench.does(joining(3, 3, Some(2)))[0].contains("refused"));
    // The process of a free seat, and an evaluator, are welcome.
    bench.leave(1);
    assert_eq!(bench.rejoin(4, 4), ["4: worker 1"]);
    assert_eq!(bench.evaluator(5, 5)[1], "5: evaluator");
}

#[test]
fn identities_are_the_lowest_free_or_the_one_before() {
    let mut bench = Bench::running(3, |_| {});
    bench.leave(0);
    bench.leave(1);
    assert_eq!(bench.rejoin(10, 1), ["10: worker 1"], "the one it had");
    assert_eq!(bench.rejoin(11, 11), ["11: worker 0"], "the lowest that is free");
    assert_eq!(bench.says(joining(12, 12, Some(40))), ["12: worker 40"]);
}

#[test]
fn a_newcomer_leaves_an_absent_one_its_identity_while_there_are_others() {
    let mut bench = Bench::new(|config| config.workload.num_workers = 2);
    bench.join(0);
    bench.leave(0);
    assert_eq!(bench.rejoin(1, 1), ["1: worker 1"]);
    assert_eq!(bench.rejoin(2, 0), ["2: worker 0"]);
}

#[test]
fn a_newer_session_of_a_process_takes_over() {
    let mut bench = Bench::running(1, |_| {});
    assert_eq!(
        bench.rejoin(5, 0),
        [
            "0: closed: a newer session of this worker took over",
            "5: worker 0"
        ]
    );
    assert_eq!(
        bench.push(0, 1, 0),
        Vec::<String>::new(),
        "the old session is gone"
    );
    assert_eq!(bench.pull(0, None), Vec::<String>::new());
    assert_eq!(bench.leave(0), Vec::<String>::new());
    assert_eq!(bench.push(5, 1, 0), ["5: push 1 Accepted 1.000, tau 0, v1"]);
}

#[test]
fn the_log_balances_joins_and_leaves_of_a_session_taken_over() {
    let mut bench = Bench::running(1, |_| {});
    let logged = bench.does(joining(5, 0, None));
    assert_eq!(logged[0], "log leave a newer session of this worker took over");
    assert_eq!(logged[2], "log join p0 true");
}

#[test]
fn the_newest_process_of_an_identity_has_it() {
    let mut bench = Bench::new(|_| {});
    bench.does(joining(0, 100, Some(0)));
    let replaced = "another process joined as worker 0; give each worker its own worker.id, or none";
    assert_eq!(
        bench.says(joining(1, 101, Some(0))),
        [format!("0: closed: {replaced}"), "1: worker 0".into()]
    );
    // The old one does not drive it out again, but may have the seat when that is free.
    assert_eq!(
        bench.says(joining(2, 100, Some(0))),
        [format!("2: refused: {replaced}")]
    );
    bench.leave(1);
    assert_eq!(bench.says(joining(3, 100, Some(0))), ["3: worker 0"]);
}

#[test]
fn nobody_new_joins_after_the_end() {
    let mut bench = Bench::running(1, |_| {});
    bench.drain();
    assert_eq!(bench.join(1), ["1: refused: the run is over"]);
    bench.leave(0);
    bench.tick(0.0);
    assert_eq!(bench.rejoin(2, 0), ["2: refused: the run is over"]);
}

#[test]
fn who_was_cut_off_while_the_run_drains_may_come_back() {
    let mut bench = Bench::running(2, |_| {});
    bench.evaluator(2, 2);
    let verdict = "Accepted 1.000, tau 0, v1";
    assert_eq!(bench.push(0, 1, 0), [format!("0: push 1 {verdict}")]);
    bench.leave(0);
    bench.leave(2);
    bench.drain();
    assert_eq!(bench.rejoin(10, 0), ["10: worker 0"]);
    assert_eq!(
        bench.push(10, 1, 0),
        [format!("10: push 1 {verdict}")],
        "what it missed"
    );
    assert_eq!(bench.says(joining_as(Role::Evaluator, 12, 2)), ["12: evaluator"]);
    assert_eq!(bench.pull(12, None), ["12: snapshot v1"]);
}

#[test]
fn roles_are_kept() {
    let mut bench = Bench::running(1, |_| {});
    bench.evaluator(1, 1);
    let refused = ["1: closed: an evaluator does not push gradients"];
    assert_eq!(bench.push(1, 1, 0), refused);
    assert_eq!(bench.announce(1, header(1, 0), true), refused);
    assert_eq!(
        bench.report(0, 0, 1.0),
        ["0: closed: a trainer does not report evaluations"]
    );
}

#[test]
fn the_first_trainer_is_asked_for_parameters_and_the_next_when_it_leaves() {
    let mut bench = Bench::with(None, |_| {});
    assert_eq!(bench.evaluator(9, 9), ["9: evaluator"]);
    assert_eq!(bench.join(0), ["0: worker 0, asked"]);
    assert_eq!(bench.join(1), ["1: worker 1"]);
    assert_eq!(
        bench.does(initialise(1, &[1.0, 2.0])),
        Vec::<String>::new(),
        "not asked"
    );
    assert_eq!(bench.leave(0), ["1: asked"]);
    assert_eq!(bench.does(initialise(1, &[1.0, 2.0]))[0], "log run_start");
    assert_eq!(bench.theta(), [1.0, 2.0]);
    // They are taken once.
    assert_eq!(bench.does(initialise(1, &[3.0, 4.0])), Vec::<String>::new());
    assert_eq!(bench.theta(), [1.0, 2.0]);
}

#[test]
fn a_newer_session_of_the_one_that_was_asked_is_asked() {
    let mut bench = Bench::with(None, |_| {});
    bench.join(0);
    assert_eq!(bench.rejoin(1, 0)[1], "1: worker 0, asked");
}

#[test]
fn unusable_parameters_end_the_session() {
    for bad in [&[1.0][..], &[1.0, f32::NAN], &[1.0, f32::NEG_INFINITY]] {
        let mut bench = Bench::with(None, |_| {});
        bench.join(0);
        bench.join(1);
        assert_eq!(
            bench.does(initialise(0, bad)),
            ["0: closed: initial parameters must be 2 finite values"]
        );
        assert_eq!(bench.leave(0), ["1: asked"]);
    }
}

#[test]
fn nobody_is_asked_once_the_run_was_ended() {
    let mut bench = Bench::with(None, |_| {});
    bench.join(0);
    bench.join(1);
    bench.drain();
    assert_eq!(bench.leave(0), Vec::<String>::new());
    assert_eq!(bench.rejoin(2, 0), ["2: worker 0"]);
}

#[test]
fn the_run_begins_when_enough_trainers_are_there() {
    let mut bench = Bench::new(|config| config.server.min_workers = 2);
    assert_eq!(bench.evaluator(8, 8), ["8: evaluator"]);
    assert_eq!(bench.join(0), ["0: worker 0"]);
    assert_eq!(bench.pull(0, None), Vec::<String>::new());
    assert_eq!(bench.pull(8, None), Vec::<String>::new());
    assert_eq!(bench.push(0, 1, 0), ["0: push 1 future_version, tau 0, v0"]);
    bench.leave(0);
    bench.join(1);
    bench.now = Duration::from_secs(5);
    assert_eq!(
        bench.join(2),
        [
            "2: worker 2",
            "log run_start",
            "log join p1 false",
            "log join p2 false",
            "log join p8 false",
            "8: snapshot v0",
        ]
    );
    let Event::RunStart(start) = &bench.events[0] else {
        panic!("run_start is the first event")
    };
    assert_eq!((start.started_at, start.parameters), (1005.0, 2));
}

#[test]
fn what_is_remembered_of_those_who_left_is_bounded() {
    let mut bench = Bench::running(1, |_| {});
    for i in 1..6000u32 {
        bench.says(joining(u64::from(i), u64::from(i), Some(i)));
        bench.leave(u64::from(i));
    }
    let (trainers, retired) = bench.server.members.remembered();
    assert!(trainers <= 4096 && retired <= 256, "{trainers} {retired}");
    assert_eq!(bench.push(0, 1, 0).len(), 1, "who is there is never forgotten");
}

#[test]
fn initial_parameters_of_a_file_take_the_order_of_the_first_model() {
    let spec = |name: &str, shape: &[usize]| TensorSpec {
        name: name.into(),
        shape: shape.to_vec(),
    };
    let file = Layout::new(vec![spec("a", &[1]), spec("z", &[2])]).unwrap();
    let model = || Layout::new(vec![spec("z", &[2]), spec("a", &[1])]).unwrap();
    let mut bench = Bench::with(Some((Arc::new(file.clone()), vec![1.0, 2.0, 3.0])), |_| {});
    let other = Layout::new(vec![spec("z", &[3]), spec("a", &[1])]).unwrap();
    let refused = bench.does(joining_with(0, other));
    assert!(
        refused[0].contains("`z` [3] is not among this run's initial parameters"),
        "{refused:?}"
    );
    bench.does(joining_with(1, model()));
    assert_eq!(bench.server.parameters().unwrap().to_vec(), [2.0, 3.0, 1.0]);
    // From here on the order counts.
    assert!(bench.does(joining_with(2, file))[0].contains("refused"));
    let joined = bench.does(joining_with(3, model()));
    assert!(joined.contains(&"3: worker 1".to_owned()), "{joined:?}");
}

/// A recipe for the model of two numbers.
fn recipe() -> Recipe {
    Recipe::new(vec![Init::Uniform(1.0)], &layout(2)).unwrap()
}

fn joining_with_recipe(session: u64) -> Input {
    let Input::Join {
        session: id,
        mut joining,
    } = joining(session, session, None)
    else {
        panic!("a join")
    };
    joining.recipe = Some(recipe());
    Input::Join { session: id, joining }
}

#[test]
fn first_parameters_are_drawn_where_a_trainer_says_how() {
    let mut bench = Bench::with(None, |config| config.run.seed = 5);
    let mut out = Vec::new();
    bench.server.handle(bench.now, joining_with_recipe(0), &mut out);
    let expected = recipe().draw(&layout(2), 5);
    let digests = |out: &[Action]| {
        let admitted = out.iter().filter_map(|action| match action {
            Action::Admit { admission, .. } => Some((admission.needs_parameters, admission.initial)),
            _ => None,
        });
        admitted.collect::<Vec<_>>()
    };
    assert_eq!(digests(&out), [(false, Some(Digest::of(&expected)))]);
    assert_eq!(bench.server.parameters().unwrap().to_vec(), expected);
    // One that draws the same has version 0 already; one that cannot gets it.
    assert_eq!(bench.pull(0, Some(0)), ["0: unchanged v0"]);
    bench.join(1);
    assert_eq!(bench.pull(1, None), ["1: snapshot v0"]);
}

#[test]
fn parameters_of_a_file_are_not_drawn_anew() {
    let mut bench = Bench::new(|_| {});
    let mut out = Vec::new();
    bench.server.handle(bench.now, joining_with_recipe(0), &mut out);
    assert!(
        out.iter()
            .any(|action| matches!(action, Action::Admit { admission, .. } if admission.initial.is_none()))
    );
    assert_eq!(bench.server.parameters().unwrap().to_vec(), [0.0, 0.0]);
}

#[test]
fn who_was_asked_for_parameters_still_sends_them() {
    let mut bench = Bench::with(None, |_| {});
    assert_eq!(bench.join(0), ["0: worker 0, asked"]);
    let mut out = Vec::new();
    bench.server.handle(bench.now, joining_with_recipe(1), &mut out);
    assert!(bench.server.parameters().is_none());
}

#[test]
fn what_was_drawn_for_a_model_that_left_is_forgotten() {
    let mut bench = Bench::with(None, |config| config.server.min_workers = 2);
    bench
        .server
        .handle(bench.now, joining_with_recipe(0), &mut Vec::new());
    bench.leave(0);
    assert!(bench.server.parameters().is_none() && bench.server.layout().is_none());
}
