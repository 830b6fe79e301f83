//! Logs made by the core's own server replay; changed ones do not.

use super::*;
use asgc_core::codec::{Encoder, Format};
use asgc_core::config::{CompressionMode, ControlPolicy, Role};
use asgc_core::ids::{Generation, Incarnation, PushId, Revision};
use asgc_core::layout::{Layout, TensorSpec};
use asgc_core::push::{LinkSample, Measured, PushHeader};
use asgc_core::server::{Action, Evaluation, FrameBytes, Input, Joining, Pushed, Server, SessionId};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

const WORKERS: u32 = 3;

fn layout() -> Layout {
    let spec = TensorSpec {
        name: "w".into(),
        shape: vec![40],
    };
    Layout::new(vec![spec]).unwrap()
}

fn config(mode: Mode, policy: ControlPolicy, change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::default();
    config.server.mode = Some(mode);
    config.server.min_workers = WORKERS;
    config.workload.num_workers = WORKERS;
    config.workload.max_updates = 60;
    config.workload.lr_decay_frac = 0.5;
    config.compression.mode = CompressionMode::Topk;
    config.error_feedback.enabled = true;
    config.staleness.enabled = true;
    config.staleness.s_max = 4;
    config.controller.enabled = true;
    config.controller.policy = policy;
    config.controller.interval_s = 2.0;
    config.controller.comm_pressure_min = 0.0;
    config.controller.adapt_staleness = mode != Mode::Sync;
    change(&mut config);
    assert_eq!(asgc_core::config::validate(&config), []);
    config
}

/// Drives a server with pushes in an order drawn from `choices`, and logs what it says.
struct Bench {
    server: Server,
    events: Vec<Event>,
    now: Duration,
    pushed: [u64; WORKERS as usize],
    held: [Version; WORKERS as usize],
    revisions: [Revision; WORKERS as usize],
}

impl Bench {
    fn new(config: &Config) -> Self {
        let values = vec![0.0; 40];
        let initial = Some((Arc::new(layout()), values));
        let mut bench = Self {
            server: Server::new(config.clone(), Generation(1), 0.0, initial),
            events: Vec::new(),
            now: Duration::ZERO,
            pushed: [0; WORKERS as usize],
            held: [Version(0); WORKERS as usize],
            revisions: [Revision(0); WORKERS as usize],
        };
        for worker in 0..=WORKERS {
            let evaluator = worker == WORKERS;
            bench.does(Input::Join {
                session: SessionId(worker.into()),
                joining: Box::new(Joining {
                    recipe: None,
                    role: if evaluator { Role::Evaluator } else { Role::Trainer },
                    wanted: (!evaluator).then_some(WorkerId(worker)),
                    incarnation: Incarnation(worker.into()),
                    layout: layout(),
                    name: "test".into(),
                }),
            });
        }
        bench
    }

    fn does(&mut self, input: Input) {
        let mut actions = Vec::new();
        self.server.handle(self.now, input, &mut actions);
        for action in actions {
            match action {
                Action::Emit(event) => self.events.push(event),
                Action::Controls { session, controls } => {
                    self.revisions[session.0 as usize] = controls.revision;
                }
                _ => {}
            }
        }
    }

    fn push(&mut self, worker: usize, size: f32) {
        let layout = Arc::new(layout());
        let codec = Codec::TopK(asgc_core::ids::Density::new(0.1).unwrap());
        let payload = Encoder::new(Arc::clone(&layout), 0)
            .encode(&[size; 40], codec, 0)
            .unwrap();
        self.pushed[worker] += 1;
        let header = PushHeader {
            push: PushId(self.pushed[worker]),
            generation: Generation(1),
            base: self.held[worker],
            format: Format::TopK,
            entries: payload.entries.clone(),
            payload_bytes: payload.bytes.len() as u64,
            controls: self.revisions[worker],
            measured: Measured {
                compute_s: 0.1,
                encode_s: 0.01 * f64::from(size),
                residual_norm: f64::from(size),
                gradient_norm: 1.0,
                loss: f64::from(size),
                samples: 1,
                link: Some(LinkSample {
                    rtt_s: 0.001,
                    upload_bytes: payload.bytes.len() as u64,
                    upload_s: 0.2,
                }),
                ..Measured::default()
            },
        };
        let pushed = Box::new(Pushed {
            header,
            payload: Some(payload.check(&layout).unwrap()),
            decode_s: 0.001,
        });
        self.does(Input::Push {
            session: SessionId(worker as u64),
            pushed,
        });
    }

    fn evaluate(&mut self, loss: f64) {
        let evaluation = Evaluation {
            version: self.server.version(),
            accuracy: 0.5,
            loss,
            eval_s: 0.1,
            buffers: bytes::Bytes::new(),
        };
        self.does(Input::Report {
            session: SessionId(WORKERS.into()),
            evaluation,
        });
    }

    fn end(mut self) -> Vec<Event> {
        self.does(Input::Drain {
            reason: "done".into(),
        });
        for worker in 0..=WORKERS {
            self.does(Input::Leave {
                session: SessionId(worker.into()),
                reason: "done".into(),
                frames: FrameBytes::default(),
            });
        }
        let frames = FrameBytes::default();
        self.does(Input::Tick { frames });
        self.events
    }
}

use asgc_core::codec::Codec;

/// A run in which each choice is a worker that pushes, whether it pulls first, and what it pushes.
fn run(config: &Config, choices: &[(usize, bool, u8)]) -> Vec<Event> {
    let mut bench = Bench::new(config);
    for (step, &(worker, pulls, size)) in choices.iter().enumerate() {
        bench.now += Duration::from_millis(170);
        if pulls {
            bench.held[worker] = bench.server.version();
        }
        bench.push(worker, f32::from(size) + 0.5);
        if step % 7 == 0 {
            bench.evaluate(2.0 / (step + 1) as f64 + f64::from(size % 3) * 0.1);
        }
    }
    bench.end()
}

fn check(events: &[Event]) -> Result<Replayed, ReplayError> {
    let text = events
        .iter()
        .map(|event| serde_json::to_string(event).unwrap() + "\n")
        .collect::<String>();
    check_text(&text)
}

fn check_text(text: &str) -> Result<Replayed, ReplayError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.jsonl");
    std::fs::write(&path, text).unwrap();
    replay(&path, |_| {})
}

fn choices() -> impl Strategy<Value = Vec<(usize, bool, u8)>> {
    prop::collection::vec((0..WORKERS as usize, any::<bool>(), any::<u8>()), 1..90)
}

fn settings() -> impl Strategy<Value = (Mode, ControlPolicy)> {
    let modes = prop_oneof![Just(Mode::Async), Just(Mode::Ssp), Just(Mode::Sync)];
    let policies = prop_oneof![
        Just(ControlPolicy::Threshold),
        Just(ControlPolicy::Score),
        Just(ControlPolicy::Budget)
    ];
    (modes, policies)
}

proptest! {
    #[test]
    fn what_the_server_logs_replays((mode, policy) in settings(), choices in choices(), versions: bool, auto: bool) {
        let config = config(mode, policy, |config| {
            config.controller.interval_versions = versions.then_some(9);
            config.compression.auto = auto;
        });
        let events = run(&config, &choices);
        let replayed = check(&events).unwrap();
        prop_assert!(replayed.ended);
        prop_assert_eq!(replayed.events, events.len() as u64);
    }

    /// One digit of one figure that is not a mere measurement.
    #[test]
    fn a_changed_figure_is_found(choices in choices(), at: prop::sample::Index, field: prop::sample::Index) {
        let config = config(Mode::Async, ControlPolicy::Budget, |_| {});
        let mut lines = run(&config, &choices)
            .iter()
            .map(|event| serde_json::to_value(event).unwrap())
            .collect::<Vec<_>>();
        let at = at.index(lines.len());
        let told = ["version", "staleness", "weight", "base_version", "lr", "received_bytes", "applied_updates",
            "total_bytes", "raw_bytes", "mean_staleness", "new_s_max", "updates_per_s", "rejected_frac", "revision"];
        let fields = told.iter().filter(|field| lines[at].get(**field).is_some_and(serde_json::Value::is_number));
        // An evaluation may be of any version.
        let fields = if lines[at]["event"] == "eval" { vec![] } else { fields.copied().collect::<Vec<_>>() };
        prop_assume!(!fields.is_empty());
        let field = fields[field.index(fields.len())];
        let old = lines[at][field].as_f64().unwrap();
        lines[at][field] = if lines[at][field].is_u64() { (old as u64 + 1).into() } else { (old + 0.125).into() };
        let text = lines.iter().map(|line| line.to_string() + "\n").collect::<String>();
        match check_text(&text) {
            Err(ReplayError::Differs { line, .. }) => prop_assert_eq!(line, at + 1, "{}", field),
            other => prop_assert!(false, "{} of line {}: {:?}", field, at + 1, other),
        }
    }

    #[test]
    fn rubbish_never_panics(text in "(\\PC*\n){0,5}") {
        let _ = check_text(&text);
    }
}

#[test]
fn a_measurement_that_was_changed_shows_in_the_decision_that_it_led_to() {
    let choices = (0..60)
        .map(|step| (step % 3, true, step as u8))
        .collect::<Vec<_>>();
    let mut events = run(&config(Mode::Async, ControlPolicy::Budget, |_| {}), &choices);
    let Some(Event::Update(update)) = events.iter_mut().find(|event| matches!(event, Event::Update(_)))
    else {
        panic!("no update")
    };
    update.residual_norm += 1.0;
    let error = check(&events).unwrap_err().to_string();
    assert!(error.contains("control."), "{error}");
}

#[test]
fn a_missing_line_is_found() {
    let choices = (0..60).map(|step| (step % 3, true, 1)).collect::<Vec<_>>();
    let events = run(&config(Mode::Async, ControlPolicy::Threshold, |_| {}), &choices);
    let without = |wanted: fn(&Event) -> bool| {
        let mut events = events.clone();
        events.remove(events.iter().position(wanted).unwrap());
        check(&events).unwrap_err().to_string()
    };
    let error = without(|event| matches!(event, Event::Control(_)));
    assert!(
        error.ends_with(
            "a decision that was due: the log says none, recomputed a control event before this line"
        ),
        "{error}"
    );
    let error = without(|event| matches!(event, Event::Update(_)));
    assert!(error.contains("recomputed"), "{error}");
    let error = without(|event| matches!(event, Event::RunStart(_)));
    assert!(error.ends_with("the first line is no run_start"), "{error}");
}

#[test]
fn a_log_that_was_cut_off_is_true_as_far_as_it_goes() {
    let mut events = run(
        &config(Mode::Async, ControlPolicy::Threshold, |_| {}),
        &[(0, true, 1); 20],
    );
    assert!(check(&events).unwrap().ended);
    events.pop();
    assert!(!check(&events).unwrap().ended);
}
