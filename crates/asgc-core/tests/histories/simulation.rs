//! Three workers and a server, joined by queues instead of sockets. A [`Step`] moves one message, computes
//! one gradient, or breaks something; which one comes next is the history's choice.

use crate::site::{Down, Site, Up};
use asgc_core::codec::{Codec, Form};
use asgc_core::config::{CompressionMode, Config, DownlinkMode, Mode, Role};
use asgc_core::event::Event;
use asgc_core::feedback::Bound;
use asgc_core::ids::{Generation, Incarnation, Version, WorkerId};
use asgc_core::layout::{Layout, TensorSpec};
use asgc_core::momentum::Correction;
use asgc_core::parameters::ConcatChunks as _;
use asgc_core::push::Measured;
use asgc_core::server::{self, Answer, FrameBytes, Joining, Pull, Pushed, Server, SessionId};
use asgc_core::worker::{self, Settings, Worker};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const WORKERS: usize = 3;
pub(crate) const PARAMETERS: usize = 256;
const IN_FLIGHT: usize = 4;

/// What a history may do; the number picks the worker.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// Compute a gradient, drawn from the seed.
    Gradient(usize, u32),
    /// Compute one that is not finite.
    BadGradient(usize),
    /// Ask for parameters.
    Pull(usize),
    /// The server gets the worker's next message.
    Up(usize),
    /// The same, but a payload's values turn out not to be finite.
    SpoiltUp(usize),
    /// The worker gets the server's next message.
    Down(usize),
    /// The connection breaks; all that is under way is lost. The server may see it at once, or never.
    Cut(usize, bool),
    /// The worker connects again.
    Join(usize),
    /// The server dies and forgets everything.
    Restart,
}

/// What the server is told to do, and how the workers compress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) mode: Mode,
    pub(crate) codec: Codec,
    pub(crate) form: Form,
    pub(crate) reclaim: bool,
    pub(crate) downlink: DownlinkMode,
    /// Whether compression and the staleness bound move meanwhile.
    pub(crate) adaptive: bool,
}

pub(crate) struct Simulation {
    pub(crate) setting: Setting,
    pub(crate) layout: Arc<Layout>,
    pub(crate) server: Server,
    generation: Generation,
    now: Duration,
    next_session: u64,
    pub(crate) sites: Vec<Site>,
    /// The parameters of every version of every life.
    pub(crate) versions: BTreeMap<(Generation, Version), Vec<f32>>,
    /// What a trainer first held at a version.
    pub(crate) views: BTreeMap<(Generation, Version), Vec<f32>>,
    /// What was logged, life by life.
    pub(crate) lives: Vec<Vec<Event>>,
}

fn layout() -> Layout {
    let spec = |name: &str, len| TensorSpec {
        name: name.into(),
        shape: vec![len],
    };
    Layout::new(vec![spec("a", 60), spec("b", PARAMETERS - 60)]).unwrap()
}

fn server(setting: Setting, layout: &Arc<Layout>, generation: Generation) -> Server {
    let mut config = Config::default();
    config.workload.num_workers = WORKERS as u32;
    config.server.mode = Some(setting.mode);
    config.staleness.enabled = true;
    (config.staleness.s_low, config.staleness.s_max) = (1, 4);
    config.compression.mode = match setting.codec {
        Codec::Identity => CompressionMode::Identity,
        Codec::TopK(_) => CompressionMode::Topk,
        Codec::Quantize(_) => CompressionMode::Quantize,
        Codec::Sign => CompressionMode::Sign,
    };
    let form = setting.form;
    (config.compression.values, config.compression.packed) = (form.values, form.packed);
    config.compression.scope = form.scope;
    (config.compression.rho, config.compression.bits) = (0.3, 3);
    assert!(setting.codec == config.compression.codec().unwrap());
    config.downlink.mode = setting.downlink;
    config.downlink.rho = 0.1;
    // A decision every ten steps: aggressive, unless pushes were rejected.
    config.controller.enabled = setting.adaptive;
    config.controller.interval_s = 0.1;
    (
        config.controller.comm_pressure_min,
        config.controller.max_delta_rho,
    ) = (0.0, 0.2);
    config.controller.adapt_staleness = setting.mode != Mode::Sync;
    assert_eq!(asgc_core::config::validate(&config), []);
    // Smaller than the rules allow, so that the parameters have several chunks.
    config.server.chunk_bytes = 400;
    let initial = (Arc::clone(layout), vec![0.0; PARAMETERS]);
    Server::new(config, generation, 0.0, Some(initial))
}

/// Values in [-1, 1), the same for the same seed.
fn gradient(seed: u32) -> [f32; PARAMETERS] {
    let mut state = seed;
    [0; PARAMETERS].map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    })
}

impl Simulation {
    pub(crate) fn new(setting: Setting) -> Self {
        let layout = Arc::new(layout());
        let generation = Generation(1);
        let settings = Settings {
            codec: setting.codec,
            form: setting.form,
            warmup: None,
            correction: Correction::default(),
            error_feedback: Some(Bound::None),
            rates: None,
            reclaim: setting.reclaim,
            replays: setting.downlink == DownlinkMode::Delta,
            seed: 5,
        };
        let site = |_| Site::new(Worker::new(Arc::clone(&layout), settings));
        Self {
            setting,
            server: server(setting, &layout, generation),
            generation,
            now: Duration::ZERO,
            next_session: 0,
            sites: (0..WORKERS).map(site).collect(),
            versions: BTreeMap::new(),
            views: BTreeMap::new(),
            lives: vec![Vec::new()],
            layout,
        }
    }

    pub(crate) fn take(&mut self, step: Step) {
        self.now += Duration::from_millis(10);
        match step {
            Step::Gradient(who, seed) => self.compute(who, gradient(seed)),
            Step::BadGradient(who) => self.compute(who, [f32::NAN; PARAMETERS]),
            Step::Pull(who) if self.sites[who].session.is_some() => self.sites[who].up.push_back(Up::Pull),
            Step::Up(who) => self.deliver_up(who, false),
            Step::SpoiltUp(who) => self.deliver_up(who, true),
            Step::Down(who) => self.deliver_down(who),
            Step::Cut(who, seen) => self.cut(who, seen),
            Step::Join(who) if self.sites[who].session.is_none() => self.join(who),
            Step::Pull(_) | Step::Join(_) => {}
            Step::Restart => self.restart(),
        }
    }

    /// All come back, all that is under way arrives, and the run is stopped.
    pub(crate) fn finish(&mut self) {
        (0..WORKERS).for_each(|who| self.take(Step::Join(who)));
        self.settle_down();
        self.feed(server::Input::Drain { reason: "end".into() });
        (0..WORKERS).for_each(|who| self.take(Step::Pull(who)));
        self.settle_down();
    }

    fn settle_down(&mut self) {
        while let Some(who) = (0..WORKERS).find(|&who| !self.sites[who].is_quiet()) {
            self.take(Step::Up(who));
            self.take(Step::Down(who));
        }
    }

    fn compute(&mut self, who: usize, gradient: [f32; PARAMETERS]) {
        let site = &mut self.sites[who];
        let Some(base) = site.base.filter(|_| site.worker.in_flight() < IN_FLIGHT) else {
            return;
        };
        if gradient.iter().all(|g| g.is_finite()) {
            let sums = site.computed.iter_mut().zip(gradient);
            sums.for_each(|(sum, g)| *sum += f64::from(g));
        }
        site.handle(worker::Input::Gradient {
            gradient: &mut gradient.to_vec(),
            base,
            measured: Measured::default(),
        });
    }

    fn deliver_up(&mut self, who: usize, spoilt: bool) {
        let Some(session) = self.sites[who].session else {
            return;
        };
        let Some(message) = self.sites[who].up.pop_front() else {
            return;
        };
        let input = match message {
            Up::Pull => server::Input::Pull {
                session,
                pull: Pull {
                    known: self.sites[who].base,
                },
            },
            Up::Header(push) => server::Input::Announce {
                session,
                header: Box::new(push.header),
                asks: push.asks_first,
                received_bytes: 0,
            },
            Up::Payload(push) => {
                let payload = push.payload.check(&self.layout).unwrap();
                let pushed = Pushed {
                    header: push.header,
                    payload: (!spoilt).then_some(payload),
                    decode_s: 0.0,
                };
                server::Input::Push {
                    session,
                    pushed: Box::new(pushed),
                }
            }
        };
        self.feed(input);
    }

    fn deliver_down(&mut self, who: usize) {
        let site = &mut self.sites[who];
        match site.down.pop_front() {
            Some(Down::Verdict(push, verdict)) => site.handle(worker::Input::Verdict { push, verdict }),
            Some(Down::Proceed(push)) => {
                let asked = site.asked.remove(&push);
                site.up.extend(asked.map(Up::Payload));
            }
            Some(Down::Unchanged) => {}
            Some(Down::Snapshot(generation, version, theta)) => site.take((generation, version), theta),
            // It holds another version since: a pull whose answer came late.
            Some(Down::Delta(delta)) if site.base != Some((delta.generation, delta.base)) => {}
            Some(Down::Delta(delta)) => site.advance(*delta),
            Some(Down::Controls(controls)) => site.handle(worker::Input::Controls(controls)),
            Some(Down::Stop) => {
                site.stopped = true;
                site.handle(worker::Input::Stopped);
            }
            None => {}
        }
    }

    fn cut(&mut self, who: usize, seen: bool) {
        let Some(session) = self.sites[who].disconnect() else {
            return;
        };
        if seen {
            self.feed(server::Input::Leave {
                session,
                reason: "cut".into(),
                frames: FrameBytes::default(),
            });
        }
    }

    fn join(&mut self, who: usize) {
        let session = SessionId(self.next_session);
        self.next_session += 1;
        self.sites[who].session = Some(session);
        let joining = Joining {
            recipe: None,
            role: Role::Trainer,
            wanted: Some(WorkerId(who as u32)),
            incarnation: Incarnation(who as u64 + 1),
            layout: (*self.layout).clone(),
            name: format!("w{who}"),
        };
        self.feed(server::Input::Join {
            session,
            joining: Box::new(joining),
        });
    }

    fn restart(&mut self) {
        self.generation.0 += 1;
        self.server = server(self.setting, &self.layout, self.generation);
        self.lives.push(Vec::new());
        for site in &mut self.sites {
            site.disconnect();
        }
    }

    fn feed(&mut self, input: server::Input) {
        let mut actions = Vec::new();
        self.server.handle(self.now, input, &mut actions);
        let at = (self.generation, self.server.version());
        let theta = || self.server.parameters().unwrap().to_vec();
        self.versions.entry(at).or_insert_with(theta);
        actions.into_iter().for_each(|action| self.act(action));
    }

    fn act(&mut self, action: server::Action) {
        use server::Action::{Admit, Answer as Answered, Emit, Proceed, Verdict as Decided};
        let generation = self.generation;
        match action {
            Emit(event) => self.lives.last_mut().unwrap().push(event),
            Decided {
                session,
                push,
                verdict,
            } => self.send(session, Down::Verdict(push, verdict)),
            Proceed { session, push } => self.send(session, Down::Proceed(push)),
            server::Action::Controls { session, controls } => {
                self.send(session, Down::Controls(controls));
            }
            Answered { session, answer } => self.send(
                session,
                match answer {
                    Answer::Snapshot { version, chunks, .. } => {
                        Down::Snapshot(generation, version, chunks.concat_chunks())
                    }
                    Answer::Delta(delta) => Down::Delta(Box::new(delta)),
                    Answer::Unchanged { .. } => Down::Unchanged,
                    Answer::Stop { .. } => Down::Stop,
                },
            ),
            Admit { session, .. } => {
                let site = self.sites.iter_mut().find(|site| site.session == Some(session));
                let site = site.expect("who joined is admitted");
                site.handle(worker::Input::Joined { generation });
                site.up.push_back(Up::Pull);
            }
            // Of a session that is gone already: every site has one at a time.
            server::Action::Close { .. } => {}
            other => panic!("no history leads to {other:?}"),
        }
    }

    fn send(&mut self, session: SessionId, message: Down) {
        let site = self.sites.iter_mut().find(|site| site.session == Some(session));
        if let Some(site) = site {
            site.down.push_back(message);
        }
    }
}
