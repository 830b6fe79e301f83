//! `asgc-test-worker`: the worker daemon as a process, on arithmetic instead of libtorch.

use crate::server::{Settings, TestServer, flags};
use crate::wait::until;
use crate::{Process, programs};

/// A worker's process.
#[derive(Debug)]
pub struct TestWorker {
    process: Process,
}

impl TestWorker {
    /// A trainer with the identity `id`.
    #[must_use]
    pub fn trainer(server: &TestServer, id: u32, settings: Settings<'_>) -> Self {
        let own = [("worker.id", id.to_string())];
        Self::start(server, &own, settings)
    }

    /// An evaluator.
    #[must_use]
    pub fn evaluator(server: &TestServer, settings: Settings<'_>) -> Self {
        Self::start(server, &[("worker.role", "evaluator".to_owned())], settings)
    }

    fn start(server: &TestServer, own: &[(&str, String)], settings: Settings<'_>) -> Self {
        let url = server.url();
        let own = own.iter().map(|(key, value)| (*key, value.as_str()));
        let all = [("worker.server", url.as_str())]
            .into_iter()
            .chain(own)
            .chain(settings.iter().copied())
            .collect::<Vec<_>>();
        let log = until("a free name for the log", || {
            let name = |n| server.folder().join(format!("worker-{n}.log"));
            (0..).map(name).find(|log| !log.exists())
        });
        Self {
            process: Process::start(&programs::find("asgc-test-worker"), &flags(&all), &log),
        }
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Waits for its end, which must be a good one.
    pub fn finished(&mut self) {
        assert_eq!(self.process.wait(), Some(0), "the worker's exit code");
    }

    /// Waits until it has said where its metrics are; `HOST:PORT`.
    #[must_use]
    pub fn metrics_address(&self) -> String {
        until("the worker's metrics address", || {
            let log = self.process.log();
            let (_, rest) = log.split_once("metrics at http://")?;
            Some(rest.split_once('/')?.0.to_owned())
        })
    }
}
