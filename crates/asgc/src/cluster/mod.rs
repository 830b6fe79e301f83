//! A server and its workers as processes of this machine: started in order, watched, and all ended.
//!
//! | what happens | what follows |
//! |---|---|
//! | a worker fails | it is told, with the end of its log; the run goes on while a trainer is left |
//! | the server ends well | workers get a while to follow, then SIGTERM, then SIGKILL |
//! | the server fails | workers get SIGTERM, then SIGKILL |
//! | the first signal | SIGTERM to the server, which drains and tells workers to stop; then as above |
//! | the second signal | SIGKILL to all |

mod child;
mod follow;
#[cfg(test)]
mod tests;

pub(crate) use child::{Spec, describe};

use crate::output::Screen;
use anyhow::{Context as _, Result, bail};
use asgc_daemon::endpoints::Endpoints;
use asgc_daemon::event_log::{self, EVENTS_FILE};
use asgc_daemon::shutdown::Signals;
use child::{Child, Exit};
use follow::Follower;
use nix::sys::signal::Signal;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};
use tokio::time::{Instant, sleep, sleep_until};

/// Where in a run's folder the server tells its addresses.
pub(crate) const ENDPOINTS_FILE: &str = "endpoints.json";
/// The server's number among the children.
const SERVER: usize = 0;
/// Polls of a file wait this long, and twice as long each time that nothing came, up to the second bound.
const POLL: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// How long processes are waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grace {
    /// For the server to be ready.
    pub(crate) start: Duration,
    /// For the server to drain.
    pub(crate) drain: Duration,
    /// For workers to end after the server did.
    pub(crate) follow: Duration,
    /// Between SIGTERM and SIGKILL.
    pub(crate) term: Duration,
}

/// The workers of a server that listens there.
pub(crate) type WorkersOf = Box<dyn Fn(&Endpoints) -> Vec<Spec>>;

/// What is started.
pub(crate) struct Plan {
    /// The run's folder, where the logs go.
    pub(crate) folder: PathBuf,
    pub(crate) server: Spec,
    /// `None` where the first program is all there is: a simulation.
    pub(crate) workers: Option<WorkersOf>,
    pub(crate) grace: Grace,
}

/// How it ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Whether the server ended with exit code 0.
    pub(crate) server_ok: bool,
    /// Workers that did not end with exit code 0.
    pub(crate) failed_workers: Vec<String>,
    /// Whether a signal asked for the end.
    pub(crate) interrupted: bool,
    /// The exit code of a second signal.
    pub(crate) cut_short: Option<u8>,
}

/// The exit codes of SIGTERM and SIGINT, as they come.
pub(crate) fn forward_signals() -> io::Result<Receiver<u8>> {
    let mut signals = Signals::install()?;
    let (send, receive) = channel(4);
    tokio::spawn(async move { while send.send(signals.next().await).await.is_ok() {} });
    Ok(receive)
}

/// Starts everything and returns when all of it has ended.
pub(crate) async fn run(plan: &Plan, screen: &mut Screen, signals: &mut Receiver<u8>) -> Result<Outcome> {
    fs::create_dir_all(&plan.folder).with_context(|| plan.folder.display().to_string())?;
    // Before anything of a run that goes on is overwritten.
    event_log::probe(&plan.folder)?;
    let endpoints = plan.folder.join(ENDPOINTS_FILE);
    match fs::remove_file(&endpoints) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| endpoints.display().to_string());
        }
        _ => {}
    }
    let mut cluster = Cluster::new(plan)?;
    if let Some(workers) = &plan.workers
        && let Some(endpoints) = cluster.wait_for_server(signals).await?
    {
        if let Some(metrics) = &endpoints.metrics {
            screen.inform(&format!(
                "server at {}, metrics at http://{metrics}/metrics",
                endpoints.grpc
            ));
        }
        cluster.start(workers(&endpoints))?;
    }
    cluster.watch(screen, signals).await;
    Ok(cluster.outcome)
}

/// What is being waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The run's end.
    Running,
    /// Processes that were asked to end in a way of their own.
    Ending(Instant),
    /// Processes that got SIGTERM.
    Terminating(Instant),
    /// Processes that got SIGKILL.
    Killed,
}

struct Cluster<'a> {
    plan: &'a Plan,
    /// `None` when it has ended.
    children: Vec<Option<Child>>,
    exits: UnboundedReceiver<Exit>,
    /// Kept so that `exits` stays open between children.
    exited: UnboundedSender<Exit>,
    phase: Phase,
    outcome: Outcome,
}

impl<'a> Cluster<'a> {
    fn new(plan: &'a Plan) -> Result<Self> {
        let (exited, exits) = unbounded_channel();
        let server = Child::spawn(&plan.server, SERVER, exited.clone())?;
        let (children, outcome) = (vec![Some(server)], Outcome::default());
        Ok(Self {
            plan,
            children,
            exits,
            exited,
            phase: Phase::Running,
            outcome,
        })
    }

    /// The server's addresses; `None` when a signal came first, and the server was asked to end.
    async fn wait_for_server(&mut self, signals: &mut Receiver<u8>) -> Result<Option<Endpoints>> {
        let path = self.plan.folder.join(ENDPOINTS_FILE);
        let pid = self.children[SERVER]
            .as_ref()
            .and_then(|server| server.pid)
            .unwrap_or_default();
        let deadline = Instant::now() + self.plan.grace.start;
        let mut pause = POLL.0;
        loop {
            if let Some(endpoints) = Endpoints::read(&path, pid) {
                return Ok(Some(endpoints));
            }
            tokio::select! {
                Some((_, status)) = self.exits.recv() => {
                    let server = self.children[SERVER].take();
                    bail!(server.map(|server| server.obituary(&status)).unwrap_or_default());
                }
                Some(_) = signals.recv() => {
                    self.outcome.interrupted = true;
                    self.drain();
                    return Ok(None);
                }
                () = sleep_until(deadline) => {
                    let log = self.plan.server.log.display();
                    bail!("the server was not ready within {:?}; see {log}", self.plan.grace.start);
                }
                () = sleep(pause) => pause = (pause * 2).min(POLL.1),
            }
        }
    }

    fn start(&mut self, workers: Vec<Spec>) -> Result<()> {
        for spec in workers {
            let child = Child::spawn(&spec, self.children.len(), self.exited.clone())?;
            self.children.push(Some(child));
        }
        Ok(())
    }

    /// Until all have ended.
    async fn watch(&mut self, screen: &mut Screen, signals: &mut Receiver<u8>) {
        let mut follower = Follower::new(self.plan.folder.join(EVENTS_FILE));
        while self.children.iter().any(Option::is_some) {
            let deadline = match self.phase {
                Phase::Ending(deadline) | Phase::Terminating(deadline) => Some(deadline),
                Phase::Running | Phase::Killed => None,
            };
            tokio::select! {
                Some((number, status)) = self.exits.recv() => self.on_exit(number, &status, screen),
                Some(code) = signals.recv() => self.on_signal(code, screen),
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => self.escalate(),
                () = sleep(follower.pause) => follower.show(screen),
            }
        }
        follower.show(screen);
        screen.finish();
    }

    fn on_exit(&mut self, number: usize, status: &io::Result<ExitStatus>, screen: &Screen) {
        let Some(child) = self.children.get_mut(number).and_then(Option::take) else {
            return;
        };
        let ok = status.as_ref().is_ok_and(ExitStatus::success);
        if number == SERVER {
            self.outcome.server_ok = ok;
            if ok {
                self.enter(Phase::Ending(Instant::now() + self.plan.grace.follow));
            } else {
                screen.remark(&child.obituary(status));
                self.terminate();
            }
            return;
        }
        if ok {
            return;
        }
        self.outcome.failed_workers.push(child.name.clone());
        if self.phase == Phase::Running {
            screen.remark(&child.obituary(status));
            if child.trainer && !self.children.iter().flatten().any(|child| child.trainer) {
                screen.remark("no trainer is left: stopping the server");
                self.drain();
            }
        }
    }

    fn on_signal(&mut self, code: u8, screen: &Screen) {
        self.outcome.interrupted = true;
        if self.phase == Phase::Running {
            screen.remark("draining; once more ends everything at once");
            self.drain();
        } else {
            self.outcome.cut_short = Some(code);
            self.signal_all(Signal::SIGKILL);
            self.phase = Phase::Killed;
        }
    }

    fn drain(&mut self) {
        if let Some(server) = &self.children[SERVER] {
            server.signal(Signal::SIGTERM);
        }
        self.enter(Phase::Ending(Instant::now() + self.plan.grace.drain));
    }

    fn escalate(&mut self) {
        match self.phase {
            Phase::Ending(_) => self.terminate(),
            _ => {
                self.signal_all(Signal::SIGKILL);
                self.phase = Phase::Killed;
            }
        }
    }

    fn terminate(&mut self) {
        self.signal_all(Signal::SIGTERM);
        self.enter(Phase::Terminating(Instant::now() + self.plan.grace.term));
    }

    /// Goes on to `next`, never back: a server that drained must not give workers new time after SIGKILL.
    fn enter(&mut self, next: Phase) {
        let rank = |phase| match phase {
            Phase::Running => 0,
            Phase::Ending(_) => 1,
            Phase::Terminating(_) => 2,
            Phase::Killed => 3,
        };
        if rank(next) >= rank(self.phase) {
            self.phase = next;
        }
    }

    fn signal_all(&self, signal: Signal) {
        for child in self.children.iter().flatten() {
            child.signal(signal);
        }
    }
}
