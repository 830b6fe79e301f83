//! A training loop on the client library, in the test's own process.

use crate::task::Quadratic;
use crate::wait::{DEADLINE, within};
use asgc_client::{Error, Options, Pulled, Session, Throttle};
use asgc_core::codec::{Codec, Form};
use asgc_core::config::Role;
use asgc_core::ids::WorkerId;
use asgc_core::momentum::Correction;
use asgc_core::push::Measured;
use asgc_core::task::{Task as _, Trainer};
use asgc_core::worker::Settings;

/// A trainer that keeps to the rules.
pub struct Honest {
    /// Its session.
    pub session: Session,
    task: Quadratic,
    trainer: Box<dyn Trainer>,
}

/// How a client of the tests joins.
#[must_use]
pub fn options(url: &str) -> Options {
    Options {
        server: url.to_owned(),
        role: Role::Trainer,
        wanted: None,
        name: "honest".into(),
        give_up_after: DEADLINE,
        throttle: Throttle::default(),
        initial: None,
    }
}

/// Every value as it is, without error feedback.
#[must_use]
pub fn plain() -> Settings {
    Settings {
        form: Form::default(),
        warmup: None,
        correction: Correction::default(),
        codec: Codec::Identity,
        error_feedback: None,
        rates: None,
        reclaim: false,
        replays: false,
        seed: 0,
    }
}

/// Pulls, and sends initial parameters where the server wants them; `None` when the run is over.
pub async fn pull(session: &mut Session, initial: impl Fn() -> Vec<f32>) -> Option<()> {
    loop {
        match within("parameters", session.pull()).await.unwrap() {
            Pulled::Fresh | Pulled::Unchanged => return Some(()),
            Pulled::NeedParameters => session.initialise(initial()).await.unwrap(),
            Pulled::Stop(_) => return None,
        }
    }
}

impl Honest {
    /// Joins.
    pub async fn join(url: &str, task: Quadratic) -> Self {
        Self::join_as(options(url), plain(), task).await.unwrap()
    }

    /// Joins in a way of its own.
    pub async fn join_as(options: Options, settings: Settings, task: Quadratic) -> Result<Self, Error> {
        let session = within("admission", Session::join(options, task.tensors(), settings)).await?;
        let worker = session.worker_id().unwrap_or(WorkerId(0));
        Ok(Self {
            session,
            task,
            trainer: task.trainer(worker).unwrap(),
        })
    }

    /// Pulls; `None` when the run is over.
    pub async fn pull(&mut self) -> Option<()> {
        let task = self.task;
        pull(&mut self.session, || task.initial()).await
    }

    /// Computes a gradient of what was pulled last, and pushes it.
    pub async fn push(&mut self) {
        let mut gradient = vec![0.0; self.session.layout().parameters()];
        self.trainer.set_parameters(self.session.parameters()).unwrap();
        self.trainer.next_batch().unwrap();
        let computed = self.trainer.gradient(&mut gradient).unwrap();
        let measured = Measured {
            loss: computed.loss,
            samples: computed.samples,
            ..Measured::default()
        };
        within("a push", self.session.push(&mut gradient, measured))
            .await
            .unwrap();
    }

    /// Pulls and pushes once; `None` when the run is over.
    pub async fn step(&mut self) -> Option<()> {
        self.pull().await?;
        self.push().await;
        Some(())
    }

    /// Steps `count` times in a run that goes on; returns once all pushes are decided.
    pub async fn steps(&mut self, count: usize) {
        for _ in 0..count {
            self.step().await.unwrap();
        }
        // What comes after a push is answered after it.
        self.pull().await;
    }

    /// Trains until the run is over, and leaves.
    pub async fn train_to_the_end(mut self) {
        while self.step().await.is_some() {}
        self.session.leave("done").await;
    }
}
