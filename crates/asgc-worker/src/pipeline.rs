//! Training with pushes under way: one thread computes, another drives the session.
//!
//! The computing thread waits for nothing but leave to begin ([`Pipeline`]), parameters, and one of two gradient buffers.
//! The network's thread encodes, sends, hears verdicts, and pulls; what arrives it copies to where the next gradient
//! begins, so that the session can write the next snapshot meanwhile: one copy of the parameters beside the session's.

use crate::app::Run;
use crate::compute::{Computing, Unfit};
use crate::metrics::Metrics;
use asgc_client::{Happening, Pulled, Session};
use asgc_core::ids::{Generation, Version};
use asgc_core::push::Measured;
use asgc_core::worker::Pipeline;
use asgc_daemon::exit::BoxError;
use asgc_daemon::shutdown::Shutdown;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// One is computed into while another is encoded.
const BUFFERS: usize = 2;

/// How long a worker that was asked to stop waits for the verdicts on what it pushed.
const DRAIN: Duration = Duration::from_secs(10);

/// What both threads see.
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    pipeline: Pipeline,
    parameters: Vec<f32>,
    at: Option<(Generation, Version)>,
    /// The server has no parameters and wants them from this worker.
    initial_wanted: bool,
    ended: bool,
}

/// What the computing thread makes.
enum Made {
    Gradient {
        number: u64,
        gradient: Vec<f32>,
        base: (Generation, Version),
        measured: Measured,
    },
    Initial(Vec<f32>),
}

/// Why the network's loop ends.
enum End {
    /// The server says that the run is over.
    Stopped(String),
    /// A signal.
    Asked,
    /// Nothing more is computed.
    Computed,
}

/// Trains until the server or a signal says stop; returns why.
pub(crate) fn train(run: &Run, session: &mut Session, computing: Computing) -> Result<String, BoxError> {
    let entries = session.layout().parameters();
    let shared = Shared::new(Pipeline::new(run.config.worker.pipeline_depth, run.config.mode()));
    let (made, makes) = unbounded_channel();
    let (spares, spare) = mpsc::channel();
    for _ in 0..BUFFERS {
        // The receiver is on this very stack.
        let _ = spares.send(vec![0.0; entries]);
    }
    let network = Network {
        session,
        shared: &shared,
        metrics: &run.metrics,
        shutdown: &run.shutdown,
        unfit: Unfit::default(),
        spares,
    };
    let runtime = run.runtime.clone();
    std::thread::scope(|scope| {
        let network = std::thread::Builder::new()
            .name("network".into())
            .spawn_scoped(scope, move || runtime.block_on(network.run(makes)))?;
        let computed = compute(run, &shared, computing, (made, spare));
        let ended = network
            .join()
            .map_err(|_| BoxError::from("the network thread panicked; its message is above"))?;
        computed?;
        ended
    })
}

/// The computing thread, until it is told to end.
fn compute(
    run: &Run,
    shared: &Shared,
    mut computing: Computing,
    (made, spare): (UnboundedSender<Made>, mpsc::Receiver<Vec<f32>>),
) -> Result<(), BoxError> {
    loop {
        let began = Instant::now();
        let mut state = shared.wait();
        if state.ended {
            return Ok(());
        }
        if std::mem::take(&mut state.initial_wanted) {
            drop(state);
            tracing::info!(seed = run.config.run.seed, "sending initial parameters");
            // Where nobody takes it, the loop ends above.
            let _ = made.send(Made::Initial(run.task.initial_parameters()?));
            continue;
        }
        let Some(base) = state.at else { continue };
        computing.begin(&state.parameters, base.1)?;
        drop(state);
        let Ok(mut gradient) = spare.recv() else { continue };
        let fetch_s = began.elapsed().as_secs_f64();
        run.metrics.fetched(fetch_s);
        let Some(computed) = computing.finish(run, &mut gradient)? else {
            return Ok(());
        };
        let made_of = Made::Gradient {
            number: shared.lock().pipeline.hand_in(),
            gradient,
            base,
            measured: Measured { fetch_s, ..computed },
        };
        let _ = made.send(made_of);
    }
}

/// What the network's thread works with.
struct Network<'a> {
    session: &'a mut Session,
    shared: &'a Shared,
    metrics: &'a Metrics,
    shutdown: &'a Shutdown,
    unfit: Unfit,
    spares: mpsc::Sender<Vec<f32>>,
}

impl Network<'_> {
    async fn run(mut self, mut makes: UnboundedReceiver<Made>) -> Result<String, BoxError> {
        self.pull(0);
        let mut ended = self.train(&mut makes, false).await;
        // Also after an error: the computing thread must not wait for parameters that never come.
        self.shared.end();
        if let Ok(End::Asked) = ended {
            ended = self.train(&mut makes, true).await;
        }
        match ended? {
            End::Stopped(reason) => Ok(reason),
            End::Asked | End::Computed => {
                self.drain().await?;
                Ok("asked to stop".into())
            }
        }
    }

    /// Drives the session until nothing more is computed; unless it was already `asked`, a signal ends that.
    async fn train(&mut self, makes: &mut UnboundedReceiver<Made>, asked: bool) -> Result<End, BoxError> {
        loop {
            tokio::select! {
                () = self.shutdown.requested(), if !asked => return Ok(End::Asked),
                made = makes.recv() => match made {
                    Some(made) => self.take(made).await?,
                    None => return Ok(End::Computed),
                },
                happening = self.session.next() => if let Some(reason) = self.happened(happening?) {
                    return Ok(End::Stopped(reason));
                },
            }
            self.settle();
        }
    }

    /// Waits until all pushes are settled.
    async fn drain(&mut self) -> Result<(), BoxError> {
        let settled = async {
            while self.session.in_flight() > 0 {
                if let Happening::Pulled(Pulled::Stop(_)) = self.session.next().await? {
                    break;
                }
            }
            Ok::<_, asgc_client::Error>(())
        };
        match tokio::time::timeout(DRAIN, settled).await {
            Ok(settled) => settled?,
            Err(_) => tracing::warn!("leaving without the verdicts on the last pushes"),
        }
        self.settle();
        Ok(())
    }

    async fn take(&mut self, made: Made) -> Result<(), BoxError> {
        match made {
            Made::Initial(values) => self.session.initialise(values).await?,
            Made::Gradient {
                number,
                mut gradient,
                base,
                measured,
            } => {
                let submitted = self.session.submit(&mut gradient, base, measured);
                // Nobody computes any more where it is not taken.
                let _ = self.spares.send(gradient);
                if self.unfit.judge(submitted)? {
                    self.metrics.unfit();
                    self.shared.lock().pipeline.settle(1);
                }
                self.metrics.step(&measured, self.session);
                self.pull(number);
            }
        }
        Ok(())
    }

    /// Asks for parameters behind gradient `behind`, unless a pull is open.
    fn pull(&mut self, behind: u64) {
        if self.shared.lock().pipeline.wish(behind) {
            self.session.request_pull();
        }
    }

    /// Takes parameters; or why the run is over.
    fn happened(&mut self, happening: Happening) -> Option<String> {
        match happening {
            Happening::Settled => {}
            Happening::Pulled(Pulled::Stop(reason)) => return Some(reason),
            Happening::Pulled(Pulled::NeedParameters) => {
                self.shared.lock().initial_wanted = true;
                self.shared.changed.notify_one();
            }
            Happening::Pulled(Pulled::Fresh | Pulled::Unchanged) => {
                let again = self.shared.lock().take(self.session);
                self.shared.changed.notify_one();
                if again {
                    self.session.request_pull();
                }
                self.metrics.pulled(self.session);
            }
        }
        None
    }

    /// Makes room for as many gradients as were settled, and forgets what another life of the server gave.
    fn settle(&mut self) {
        let settled = self.metrics.settled(self.session);
        let mut state = self.shared.lock();
        state.pipeline.settle(settled);
        let generation = self.session.generation();
        if state.at.is_some_and(|(of, _)| of != generation) {
            state.at = None;
            state.pipeline.forget();
            let behind = state.pipeline.handed();
            if state.pipeline.wish(behind) {
                self.session.request_pull();
            }
        }
        drop(state);
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn new(pipeline: Pipeline) -> Self {
        let state = State {
            pipeline,
            parameters: Vec::new(),
            at: None,
            initial_wanted: false,
            ended: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is something for the computing thread to do.
    fn wait(&self) -> MutexGuard<'_, State> {
        let idle = |state: &mut State| {
            !(state.ended || state.initial_wanted || state.at.is_some() && state.pipeline.may_begin())
        };
        let waited = self.changed.wait_while(self.lock(), idle);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_one();
    }
}

impl State {
    /// Copies what arrived; whether to ask again.
    fn take(&mut self, session: &Session) -> bool {
        let held = session.held();
        if held != self.at {
            self.parameters.clear();
            self.parameters.extend_from_slice(session.parameters());
            self.at = held;
        }
        self.pipeline.answered()
    }
}
