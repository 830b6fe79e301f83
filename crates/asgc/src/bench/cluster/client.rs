//! A client's process: sessions that pull, push and hear the verdict, over and over, with ready-made gradients.

use crate::bench::coding::Coding;
use crate::bench::{peer, synthetic};
use anyhow::{Context as _, Result, bail};
use asgc_client::{Options, Pulled, Session, Throttle};
use asgc_core::config::Role;
use asgc_core::event::Decision;
use asgc_core::feedback::Bound;
use asgc_core::ids::WorkerId;
use asgc_core::layout::Layout;
use asgc_core::momentum::Correction;
use asgc_core::push::Measured;
use asgc_core::worker::Settings;
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// Sessions that join at once: a thousand at a time would fill the queue of sockets that wait to be accepted.
const JOINING: usize = 32;
/// Different gradients: a codec must not see the same one each time.
const GRADIENTS: u64 = 4;
/// How long a server may keep a session waiting.
const PATIENCE: Duration = Duration::from_secs(60);

/// The first order.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) server: String,
    pub(super) parameters: usize,
    pub(super) codec: Coding,
    /// Ids of the sessions of this process: from the first up to, not including, the second.
    pub(super) ids: (u32, u32),
    /// Each session stops after so many pushes.
    pub(super) updates: Option<u64>,
    /// The last worker waits so long between its pull and its push.
    pub(super) slow: Option<Slow>,
}

/// One worker that is slower than the others.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Slow {
    pub(super) id: u32,
    pub(super) delay: Duration,
}

/// The second: go, and stop after so many seconds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Go {
    pub(super) seconds: f64,
}

/// What one session did in that time.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Served {
    pub(super) id: u32,
    pub(super) accepted: u64,
    pub(super) rejected: u64,
    pub(super) pulls: u64,
    pub(super) reconnects: u64,
    /// From gradient to verdict, in microseconds.
    pub(super) latencies_us: Vec<u32>,
    /// Of this session alone: one that stops after a number of pushes takes less than the time given.
    pub(super) seconds: f64,
}

/// What `asgc bench cluster` starts.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(in crate::bench) fn main(_: &Args) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve())?;
    Ok(ExitCode::SUCCESS)
}

/// What all sessions of the process share.
struct Shared {
    hello: Hello,
    layout: Layout,
    gradients: Vec<Vec<f32>>,
    /// All have pulled once, and then: go.
    ready: Barrier,
    go: Barrier,
    over: AtomicBool,
}

async fn serve() -> Result<()> {
    let Some(hello) = peer::next_order::<Hello>()? else {
        return Ok(());
    };
    let layout = synthetic::layout(hello.parameters)?;
    let count = (hello.ids.1 - hello.ids.0) as usize;
    let different = if hello.parameters > 100_000_000 {
        1
    } else {
        GRADIENTS
    };
    let shared = Arc::new(Shared {
        gradients: (0..different)
            .map(|seed| synthetic::gradient(&layout, seed))
            .collect(),
        layout,
        ready: Barrier::new(count + 1),
        go: Barrier::new(count + 1),
        over: AtomicBool::new(false),
        hello,
    });
    let mut sessions = JoinSet::new();
    for session in join_all(&shared).await? {
        sessions.spawn(run(session, Arc::clone(&shared)));
    }
    tokio::select! {
        _ = shared.ready.wait() => {}
        // Before the start a session ends for one reason only.
        Some(ended) = sessions.join_next() => { ended??; bail!("a session ended before the start"); }
    }
    peer::reply(&())?;
    let Some(go) = tokio::task::spawn_blocking(peer::next_order::<Go>).await?? else {
        return Ok(());
    };
    shared.go.wait().await;
    let end = tokio::time::sleep(Duration::from_secs_f64(go.seconds));
    tokio::pin!(end);
    let mut served = Vec::new();
    while !sessions.is_empty() {
        tokio::select! {
            () = &mut end, if !shared.over.load(Ordering::Relaxed) => shared.over.store(true, Ordering::Relaxed),
            Some(ended) = sessions.join_next() => served.push(ended??),
        }
    }
    served.sort_by_key(|session| session.id);
    peer::reply(&served)?;
    // The one that asked reads of the process what it used, and lets it end then.
    peer::next_order::<()>().map(drop)
}

/// All sessions of this process, some at a time.
async fn join_all(shared: &Arc<Shared>) -> Result<Vec<Session>> {
    let mut joining = JoinSet::new();
    let mut sessions = Vec::new();
    for id in shared.hello.ids.0..shared.hello.ids.1 {
        if joining.len() >= JOINING
            && let Some(joined) = joining.join_next().await
        {
            sessions.push(joined??);
        }
        joining.spawn(join(id, Arc::clone(shared)));
    }
    while let Some(joined) = joining.join_next().await {
        sessions.push(joined??);
    }
    Ok(sessions)
}

async fn join(id: u32, shared: Arc<Shared>) -> Result<Session> {
    let options = Options {
        server: shared.hello.server.clone(),
        role: Role::Trainer,
        wanted: Some(WorkerId(id)),
        name: format!("bench-{id}"),
        give_up_after: PATIENCE,
        throttle: Throttle::default(),
        initial: None,
    };
    let settings = Settings {
        codec: shared.hello.codec.codec,
        form: shared.hello.codec.form,
        warmup: None,
        correction: Correction::default(),
        error_feedback: Some(Bound::None),
        rates: None,
        reclaim: false,
        // The server may have been given --set downlink.mode=delta.
        replays: true,
        seed: 0,
    };
    let session = Session::join(options, shared.layout.clone(), settings).await;
    session.with_context(|| format!("worker {id} cannot join"))
}

async fn run(mut session: Session, shared: Arc<Shared>) -> Result<Served> {
    let id = session.worker_id().map_or(0, |id| id.0);
    pull(&mut session).await?;
    shared.ready.wait().await;
    shared.go.wait().await;
    let began = Instant::now();
    let slow = shared.hello.slow.filter(|slow| slow.id == id);
    let mut served = Served {
        id,
        ..Served::default()
    };
    let most = shared.hello.updates.unwrap_or(u64::MAX);
    let mut gradients = shared.gradients.iter().cycle();
    let mut gradient = vec![0.0; session.layout().parameters()];
    let mut pushed = 0;
    while pushed < most && !shared.over.load(Ordering::Relaxed) {
        if let Some(slow) = slow {
            tokio::time::sleep(slow.delay).await;
        }
        // Stands for computing one: the session gives another buffer back.
        gradient.copy_from_slice(gradients.next().context("there are no gradients")?);
        session
            .push(
                &mut gradient,
                Measured {
                    samples: 1,
                    ..Measured::default()
                },
            )
            .await?;
        pushed += 1;
        // The verdict comes ahead of the answer.
        pull(&mut session).await?;
        served.pulls += 1;
        if !shared.over.load(Ordering::Relaxed) || shared.hello.updates.is_some() {
            served.note(&mut session);
            served.seconds = began.elapsed().as_secs_f64();
        }
    }
    served.reconnects = session.reconnects();
    Ok(served)
}

impl Served {
    fn note(&mut self, session: &mut Session) {
        for settled in session.take_settled() {
            match settled.verdict.decision {
                Decision::Rejected => self.rejected += 1,
                Decision::Accepted | Decision::Downweighted => self.accepted += 1,
            }
            let us = settled.latency.as_micros().min(u128::from(u32::MAX));
            self.latencies_us.push(us as u32);
        }
    }
}

async fn pull(session: &mut Session) -> Result<()> {
    loop {
        match session.pull().await? {
            Pulled::Fresh | Pulled::Unchanged => return Ok(()),
            Pulled::NeedParameters => {
                let zeros = vec![0.0; session.layout().parameters()];
                session.initialise(zeros).await?;
            }
            Pulled::Stop(reason) => bail!("the run ended: {reason}"),
        }
    }
}
