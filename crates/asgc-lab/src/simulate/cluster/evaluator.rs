//! The evaluator's part.

use super::{Cluster, Happening, Message, session};
use crate::simulate::Error;
use crate::simulate::held::Held;
use crate::simulate::network::Way;
use crate::simulate::pool::{Panicked, Pending};
use asgc_core::downlink::Change;
use asgc_core::ids::Version;
use asgc_core::parameters::ConcatChunks as _;
use asgc_core::server::{Evaluation, Input};
use asgc_core::task::{BoxError, Evaluator, Measurement};
use std::time::Duration;

/// An evaluator comes back with its measurement.
type Measuring = (Box<dyn Evaluator>, Result<Measurement, BoxError>);

/// The evaluator: at place `trainers.len()`.
pub(super) struct EvaluatorSite {
    pub(super) evaluator: Option<Box<dyn Evaluator>>,
    pub(super) measuring: Option<Pending<Measuring>>,
    /// The parameters that it holds.
    pub(super) held: Held,
}

impl Cluster<'_> {
    pub(super) fn evaluator_hears(&mut self, message: Message) -> Result<(), Error> {
        match message {
            Message::Snapshot(at, chunks) => {
                self.evaluator.held.take(at, chunks);
                self.measure();
                Ok(())
            }
            Message::Delta(delta) => {
                // It pushes nothing, so that no record is its own.
                let changes = delta.records.iter().map(|record| {
                    let checked = record.payload.clone().check(&self.layout);
                    checked.map(|payload| Change::new(record.how, payload))
                });
                let changes = changes
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(|error| Error::Task(Box::new(error)))?;
                self.evaluator
                    .held
                    .advance((delta.generation, delta.version), &changes);
                self.measure();
                Ok(())
            }
            Message::Stop(reason) => self.leave(self.trainers.len(), &reason),
            // An evaluator holds no version that could be current, and pushes nothing.
            Message::Unchanged | Message::Verdict(..) | Message::Proceed(_) | Message::Controls(_) => Ok(()),
        }
    }

    fn measure(&mut self) {
        let evaluator = self.evaluator.evaluator.take();
        let chunks = self.evaluator.held.chunks();
        self.evaluator.measuring = evaluator.map(|mut evaluator| {
            self.pool.run(move || {
                let measured = evaluator.evaluate(&chunks.concat_chunks());
                (evaluator, measured)
            })
        });
        let takes = Duration::try_from_secs_f64(self.config.simulation.eval_s).unwrap_or_default();
        self.agenda.after(takes, Happening::Computed(self.trainers.len()));
    }

    pub(super) fn measured(&mut self) -> Result<(), Error> {
        let Some(measuring) = self.evaluator.measuring.take() else {
            return Ok(());
        };
        let (evaluator, measured) = measuring
            .get()
            .map_err(|panicked: Panicked| Error::Task(Box::new(panicked)))?;
        self.evaluator.evaluator = Some(evaluator);
        let measured = measured?;
        let place = self.trainers.len();
        let input = Input::Report {
            session: session(place),
            evaluation: Evaluation {
                version: self
                    .evaluator
                    .held
                    .at()
                    .map_or(Version(0), |(_, version)| version),
                accuracy: measured.accuracy,
                loss: measured.loss,
                eval_s: self.config.simulation.eval_s,
                buffers: measured.buffers.into(),
            },
        };
        self.network
            .send((place, Way::Up), Happening::Arrive(input), &mut self.agenda);
        self.pull(place);
        Ok(())
    }
}
