//! The server, one input at a time. [`Bench`] feeds it and shows what it does, a line an action.

mod admission;
mod async_mode;
mod control;
mod downlink;
mod exactly_once;
mod pulls;
mod ssp_mode;
mod stop;
mod sync_mode;

use super::*;
use crate::codec::{CheckedPayload, Codec, Encoder, Format};
use crate::config::Role;
use crate::event::Update;
use crate::ids::{Incarnation, PushId, WorkerId};
use crate::layout::TensorSpec;
use crate::push::{Dropped, LinkSample, Measured, PushHeader, Verdict};

pub(super) const GENERATION: Generation = Generation(7);

/// A server for a model of two numbers, both 0 at the start.
pub(super) struct Bench {
    pub(super) server: Server,
    pub(super) now: Duration,
    /// Everything that was logged.
    pub(super) events: Vec<Event>,
}

impl Bench {
    /// Parameters are known; the run begins with the first trainer.
    pub(super) fn new(change: impl FnOnce(&mut Config)) -> Self {
        Self::with(Some((Arc::new(layout(2)), vec![0.0; 2])), change)
    }

    pub(super) fn with(initial: Option<(Arc<Layout>, Vec<f32>)>, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::default();
        config.workload.lr = 0.5;
        change(&mut config);
        let found = crate::config::validate(&config);
        assert!(found.is_empty(), "{found:?}");
        Self {
            server: Server::new(config, GENERATION, 1000.0, initial),
            now: Duration::ZERO,
            events: Vec::new(),
        }
    }

    /// With trainers in sessions 0, 1, …, and as many expected.
    pub(super) fn running(trainers: u32, change: impl FnOnce(&mut Config)) -> Self {
        let mut bench = Self::new(|config| {
            config.workload.num_workers = trainers;
            change(config);
        });
        (0..trainers).for_each(|session| drop(bench.join(u64::from(session))));
        bench
    }

    /// What one input leads to.
    pub(super) fn does(&mut self, input: Input) -> Vec<String> {
        let mut out = Vec::new();
        self.server.handle(self.now, input, &mut out);
        let shown = out.iter().map(show).collect();
        self.events
            .extend(out.into_iter().filter_map(|action| match action {
                Action::Emit(event) => Some(event),
                _ => None,
            }));
        shown
    }

    /// As [`Self::does`], without what is logged.
    pub(super) fn says(&mut self, input: Input) -> Vec<String> {
        let mut shown = self.does(input);
        shown.retain(|line| !line.starts_with("log"));
        shown
    }

    /// A trainer joins; its process has the number of the session.
    pub(super) fn join(&mut self, session: u64) -> Vec<String> {
        self.does(joining(session, session, None))
    }

    /// A process joins again.
    pub(super) fn rejoin(&mut self, session: u64, incarnation: u64) -> Vec<String> {
        self.says(joining(session, incarnation, None))
    }

    pub(super) fn evaluator(&mut self, session: u64, incarnation: u64) -> Vec<String> {
        self.does(joining_as(Role::Evaluator, session, incarnation))
    }

    pub(super) fn leave(&mut self, session: u64) -> Vec<String> {
        self.says(Input::Leave {
            session: SessionId(session),
            reason: "gone".into(),
            frames: FrameBytes::default(),
        })
    }

    /// Sessions 0 and 1 end.
    pub(super) fn leave_all(&mut self) {
        (0..2).for_each(|session| drop(self.leave(session)));
    }

    /// A push of gradient (1, -1).
    pub(super) fn push(&mut self, session: u64, id: u64, base: u64) -> Vec<String> {
        self.says(push(session, header(id, base), Some(&[1.0, -1.0])))
    }

    pub(super) fn pull(&mut self, session: u64, known: Option<u64>) -> Vec<String> {
        self.says(Input::Pull {
            session: SessionId(session),
            pull: Pull {
                known: known.map(|v| (GENERATION, Version(v))),
            },
        })
    }

    pub(super) fn announce(&mut self, session: u64, header: PushHeader, asks: bool) -> Vec<String> {
        self.says(Input::Announce {
            session: SessionId(session),
            header: Box::new(header),
            asks,
            received_bytes: 3,
        })
    }

    pub(super) fn report(&mut self, session: u64, version: u64, accuracy: f64) -> Vec<String> {
        self.does(Input::Report {
            session: SessionId(session),
            evaluation: Evaluation {
                version: Version(version),
                accuracy,
                loss: 0.5,
                eval_s: 1.0,
                buffers: bytes::Bytes::new(),
            },
        })
    }

    pub(super) fn drain(&mut self) -> Vec<String> {
        self.says(Input::Drain {
            reason: "told".into(),
        })
    }

    pub(super) fn tick(&mut self, now_s: f64) -> Vec<String> {
        self.now = Duration::from_secs_f64(now_s);
        let frames = FrameBytes {
            uplink: 11,
            downlink: 22,
        };
        self.does(Input::Tick { frames })
    }

    pub(super) fn theta(&self) -> Vec<f32> {
        self.server.parameters().unwrap().to_vec()
    }

    pub(super) fn updates<'a>(&'a self) -> Vec<&'a Update> {
        let update = |event: &'a Event| match event {
            Event::Update(update) => Some(update),
            _ => None,
        };
        self.events.iter().filter_map(update).collect()
    }
}

pub(super) fn layout(len: usize) -> Layout {
    Layout::new(vec![TensorSpec {
        name: "w".into(),
        shape: vec![len],
    }])
    .unwrap()
}

pub(super) fn joining(session: u64, incarnation: u64, wanted: Option<u32>) -> Input {
    let Input::Join { session, mut joining } = joining_as(Role::Trainer, session, incarnation) else {
        unreachable!()
    };
    joining.wanted = wanted.map(WorkerId);
    Input::Join { session, joining }
}

pub(super) fn joining_as(role: Role, session: u64, incarnation: u64) -> Input {
    Input::Join {
        session: SessionId(session),
        joining: Box::new(Joining {
            recipe: None,
            role,
            wanted: None,
            incarnation: Incarnation(incarnation),
            layout: layout(2),
            name: format!("p{incarnation}"),
        }),
    }
}

pub(super) fn header(id: u64, base: u64) -> PushHeader {
    PushHeader {
        push: PushId(id),
        generation: GENERATION,
        base: Version(base),
        format: Format::Identity,
        entries: vec![],
        payload_bytes: 8,
        controls: crate::ids::Revision(0),
        measured: Measured {
            fetch_s: 0.1,
            compute_s: 0.2,
            encode_s: 0.3,
            residual_norm: 0.4,
            loss: 0.5,
            samples: 6,
            gradient_norm: 0.7,
            dropped: Dropped { sum: -0.8, norm: 0.9 },
            link: Some(LinkSample {
                rtt_s: 0.01,
                upload_bytes: 12,
                upload_s: 0.02,
            }),
            pipeline_depth: 3,
        },
    }
}

/// `None` for a gradient that is not finite.
pub(super) fn push(session: u64, header: PushHeader, gradient: Option<&[f32]>) -> Input {
    let pushed = Pushed {
        header,
        payload: gradient.map(payload),
        decode_s: 0.001,
    };
    Input::Push {
        session: SessionId(session),
        pushed: Box::new(pushed),
    }
}

fn payload(gradient: &[f32]) -> CheckedPayload {
    let layout = Arc::new(layout(gradient.len()));
    let payload = Encoder::new(Arc::clone(&layout), 0).encode(gradient, Codec::Identity, 0);
    payload.unwrap().check(&layout).unwrap()
}

fn show(action: &Action) -> String {
    match action {
        Action::Admit { session, admission } => {
            let worker = admission
                .worker
                .map_or("evaluator".into(), |w| format!("worker {w}"));
            let asked = if admission.needs_parameters { ", asked" } else { "" };
            assert_eq!(admission.generation, GENERATION);
            format!("{}: {worker}{asked}", session.0)
        }
        Action::Refuse { session, refusal } => format!("{}: refused: {refusal}", session.0),
        Action::Close { session, refusal } => format!("{}: closed: {refusal}", session.0),
        Action::AskParameters { session } => format!("{}: asked", session.0),
        Action::Answer { session, answer } => match answer {
            Answer::Snapshot { version, .. } => format!("{}: snapshot v{version}", session.0),
            Answer::Delta(delta) => {
                let (base, version, records) = (delta.base, delta.version, delta.records.len());
                let own = delta.records.iter().filter(|record| record.own.is_some()).count();
                format!(
                    "{}: delta v{base} to v{version}, {records} records, {own} own",
                    session.0
                )
            }
            Answer::Unchanged { version, .. } => format!("{}: unchanged v{version}", session.0),
            Answer::Stop { reason } => format!("{}: stop: {reason}", session.0),
        },
        Action::Verdict {
            session,
            push,
            verdict,
        } => format!("{}: push {push} {}", session.0, show_verdict(verdict)),
        Action::Proceed { session, push } => format!("{}: push {push} may go", session.0),
        Action::Controls { session, controls } => {
            format!("{}: r{} {}", session.0, controls.revision, controls.codec)
        }
        Action::ControlsSet { ticket, outcome } => match outcome {
            Ok(control) => format!("answer {}: r{}", ticket.0, control.revision),
            Err(why) => format!("answer {}: {why}", ticket.0),
        },
        Action::Emit(event) => show_event(event),
        Action::Finish => "finish".into(),
    }
}

fn show_verdict(verdict: &Verdict) -> String {
    let Verdict {
        weight,
        staleness,
        version,
        ..
    } = verdict;
    match verdict.reason {
        Some(reason) => format!("{}, tau {staleness}, v{version}", reason.as_str()),
        None => format!("{:?} {weight:.3}, tau {staleness}, v{version}", verdict.decision),
    }
}

fn show_event(event: &Event) -> String {
    match event {
        Event::RunStart(_) => "log run_start".into(),
        Event::Join(join) => format!("log join {} {}", join.name, join.rejoined),
        Event::Leave(leave) => format!("log leave {}", leave.reason),
        Event::Update(update) => format!("log update v{}", update.version),
        Event::Eval(eval) => format!("log eval v{} {}", eval.version, eval.test_accuracy),
        Event::Control(control) => format!("log control {}", control.reason),
        Event::RunEnd(end) => format!("log run_end {}", end.reason),
    }
}
