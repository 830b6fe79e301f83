//! The real `asgc-server`, on a free port and in a folder of its own.

use crate::scrape::Page;
use crate::wait::until;
use crate::{Process, programs, scrape};
use asgc_core::event::{Event, Update};
use asgc_core::ids::WorkerId;
use asgc_daemon::endpoints::Endpoints;
use asgc_daemon::event_log::{EVENTS_FILE, PREVIOUS_DIR};
use nix::sys::signal::Signal;
use safetensors::SafeTensors;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Settings as `("section.key", "value")`.
pub type Settings<'a> = &'a [(&'a str, &'a str)];

/// A server and its folder.
#[derive(Debug)]
pub struct TestServer {
    process: Process,
    folder: TempDir,
    settings: Vec<String>,
    endpoints: Endpoints,
}

impl TestServer {
    /// Starts a server; returns once it is ready.
    #[must_use]
    pub fn start(settings: Settings<'_>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = flags(settings);
        let process = launch(folder.path(), &settings, "127.0.0.1:0");
        Self::await_ready(process, folder, settings)
    }

    fn await_ready(mut process: Process, folder: TempDir, settings: Vec<String>) -> Self {
        let endpoints = until("the server to be ready", || {
            if let Some(status) = process.ended() {
                panic!(
                    "the server ended before it was ready: {status}\n{}",
                    process.log()
                );
            }
            Endpoints::read(&folder.path().join("address.json"), process.id())
        });
        Self {
            process,
            folder,
            settings,
            endpoints,
        }
    }

    /// SIGKILL; then a new server on the same folder and port.
    #[must_use]
    pub fn restart(self) -> Self {
        let Self {
            mut process,
            folder,
            settings,
            endpoints,
        } = self;
        process.kill();
        let process = launch(folder.path(), &settings, &endpoints.grpc);
        Self::await_ready(process, folder, settings)
    }

    /// `HOST:PORT`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.endpoints.grpc
    }

    /// `http://HOST:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Where the test keeps its files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The run's folder.
    #[must_use]
    pub fn run_folder(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits for the end of the server and checks its exit code; returns the log.
    pub fn finished(&mut self) -> Vec<Event> {
        assert_eq!(self.process.wait(), Some(0), "the server's exit code");
        self.events()
    }

    /// The event log so far.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        read_log(&self.run_folder().join(EVENTS_FILE))
    }

    /// The event log of the server before the restart.
    #[must_use]
    pub fn previous_events(&self) -> Vec<Event> {
        read_log(&self.run_folder().join(PREVIOUS_DIR).join(EVENTS_FILE))
    }

    /// Waits until the log satisfies `found`.
    pub fn wait_for<T>(&self, what: &str, found: impl Fn(&[Event]) -> Option<T>) -> T {
        until(what, || found(&self.events()))
    }

    /// Waits until `count` updates of `worker` are in the log.
    pub fn wait_for_updates_of(&self, worker: u32, count: usize) {
        self.wait_for(&format!("{count} updates of worker {worker}"), |events| {
            (updates_of(events, worker).len() >= count).then_some(())
        });
    }

    /// What `/metrics` says now, read strictly.
    #[must_use]
    pub fn metrics(&self) -> Page {
        scrape::metrics(self.endpoints.metrics.as_deref().unwrap())
    }

    /// The values in `model.safetensors` of the tensors `names`, one after the other.
    #[must_use]
    pub fn model(&self, names: &[&str]) -> Vec<f32> {
        read_model(&self.run_folder(), names)
    }
}

/// The values in the model file of a run's folder of the tensors `names`, one after the other.
#[must_use]
pub fn read_model(run: &Path, names: &[&str]) -> Vec<f32> {
    let bytes = fs::read(run.join("model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut values = Vec::new();
    for name in names {
        asgc_proto::bytes_to_floats(file.tensor(name).unwrap().data(), &mut values);
    }
    values
}

/// The updates in a log.
#[must_use]
pub fn updates(events: &[Event]) -> Vec<&Update> {
    let updates = events.iter().filter_map(|event| match event {
        Event::Update(update) => Some(update),
        _ => None,
    });
    updates.collect()
}

/// The updates of one worker in a log.
#[must_use]
pub fn updates_of(events: &[Event], worker: u32) -> Vec<&Update> {
    let mut updates = updates(events);
    updates.retain(|update| update.worker_id == WorkerId(worker));
    updates
}

/// `--set KEY=VALUE` for each.
#[must_use]
pub fn flags(settings: Settings<'_>) -> Vec<String> {
    let flag = |(key, value): &(&str, &str)| ["--set".to_owned(), format!("{key}={value}")];
    settings.iter().flat_map(flag).collect()
}

/// Starts a server on `folder` that may fail to come up.
#[must_use]
pub fn launch(folder: &Path, settings: &[String], listen: &str) -> Process {
    let place = flags(&[
        ("server.listen", listen),
        ("telemetry.metrics_listen", "127.0.0.1:0"),
        ("run.results_dir", folder.to_str().unwrap()),
        ("run.name", "run"),
        (
            "server.address_file",
            folder.join("address.json").to_str().unwrap(),
        ),
    ]);
    let args = [place, settings.to_vec()].concat();
    let log = until("a free name for the log", || {
        (0..)
            .map(|n| folder.join(format!("server-{n}.log")))
            .find(|log| !log.exists())
    });
    Process::start(&programs::find("asgc-server"), &args, &log)
}

/// All whole lines of a log; empty while there is none.
#[must_use]
pub fn read_log(path: &Path) -> Vec<Event> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}
