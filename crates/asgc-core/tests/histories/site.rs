//! A worker with its end of the connection.

use crate::simulation::PARAMETERS;
use asgc_core::downlink::Delta;
use asgc_core::ids::{Generation, PushId, Version};
use asgc_core::push::{Controls, Push, Verdict};
use asgc_core::server::SessionId;
use asgc_core::worker::{self, Worker};
use std::collections::{BTreeMap, VecDeque};

/// From worker to server.
pub(crate) enum Up {
    Header(Push),
    Payload(Push),
    Pull,
}

/// From server to worker.
pub(crate) enum Down {
    Verdict(PushId, Verdict),
    Proceed(PushId),
    /// The version that the worker holds is current.
    Unchanged,
    Snapshot(Generation, Version, Vec<f32>),
    Delta(Box<Delta>),
    Controls(Controls),
    Stop,
}

/// A worker, its connection, and a book of what it did.
pub(crate) struct Site {
    pub(crate) worker: Worker,
    pub(crate) session: Option<SessionId>,
    pub(crate) base: Option<(Generation, Version)>,
    /// The parameters of that version.
    pub(crate) theta: Vec<f32>,
    pub(crate) up: VecDeque<Up>,
    pub(crate) down: VecDeque<Down>,
    /// Pushes that wait for the server's go-ahead.
    pub(crate) asked: BTreeMap<PushId, Push>,
    /// The server said that the run is over.
    pub(crate) stopped: bool,
    /// Sum of all gradients.
    pub(crate) computed: [f64; PARAMETERS],
    /// Every push: the life it was made for, and `D(C(u))`.
    pub(crate) pushes: BTreeMap<PushId, (Generation, Vec<f32>)>,
    /// Every verdict that the worker acted upon.
    pub(crate) settled: BTreeMap<PushId, Verdict>,
}

impl Site {
    pub(crate) fn new(worker: Worker) -> Self {
        Self {
            worker,
            session: None,
            base: None,
            theta: Vec::new(),
            up: VecDeque::new(),
            down: VecDeque::new(),
            asked: BTreeMap::new(),
            stopped: false,
            computed: [0.0; PARAMETERS],
            pushes: BTreeMap::new(),
            settled: BTreeMap::new(),
        }
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.up.is_empty() && self.down.is_empty()
    }

    pub(crate) fn handle(&mut self, input: worker::Input<'_>) {
        let mut actions = Vec::new();
        self.worker.handle(input, &mut actions);
        for action in actions {
            match action {
                worker::Action::Send(push) => self.send(push),
                worker::Action::Settled { push, verdict } => {
                    let before = self.settled.insert(push, verdict);
                    assert_eq!(before, None, "a push is settled once");
                }
                worker::Action::Unfit(_) => {}
            }
        }
    }

    fn send(&mut self, push: Push) {
        let payload = push.payload.clone().check(self.worker.layout()).unwrap();
        let made = (push.header.generation, payload.decode());
        let before = self.pushes.insert(push.header.push, made.clone());
        assert!(before.is_none_or(|before| before == made), "an id is used once");
        if self.session.is_some() {
            self.up.push_back(Up::Header(push.clone()));
            if push.asks_first {
                self.asked.insert(push.header.push, push);
            } else {
                self.up.push_back(Up::Payload(push));
            }
        }
    }

    pub(crate) fn take(&mut self, (generation, version): (Generation, Version), theta: Vec<f32>) {
        (self.base, self.theta) = (Some((generation, version)), theta);
        self.worker.pulled(version);
    }

    /// Makes the changes of a delta, all or none: without a push of its own that it has forgotten it pulls all parameters.
    pub(crate) fn advance(&mut self, delta: Delta) {
        assert_eq!(
            self.base,
            Some((delta.generation, delta.base)),
            "from another version"
        );
        let delta = delta.shortest();
        let at = (delta.generation, delta.version);
        let changes = delta.records.into_iter().map(|record| self.worker.change(record));
        match changes.collect::<Result<Vec<_>, _>>() {
            Ok(changes) => {
                let mut theta = std::mem::take(&mut self.theta);
                changes
                    .iter()
                    .for_each(|change| change.make_within(0, &mut theta));
                self.take(at, theta);
            }
            Err(worker::Unusable::Forgotten(_)) => {
                self.base = None;
                self.up.push_back(Up::Pull);
            }
            Err(worker::Unusable::Payload(error)) => panic!("{error}"),
        }
    }

    /// All that is under way is lost.
    pub(crate) fn disconnect(&mut self) -> Option<SessionId> {
        self.up.clear();
        self.down.clear();
        self.asked.clear();
        self.session.take()
    }
}
