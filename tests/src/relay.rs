//! A TCP relay between client and server that cuts and holds connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A way through the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Worker to server.
    Up,
    /// Server to worker.
    Down,
}

/// How many bytes a connection lets through in each direction before it is cut, by its number; `None` is no end.
pub type Budgets = Box<dyn FnMut(u64) -> (Option<u64>, Option<u64>) + Send>;

/// A running relay; ends with the test's runtime.
#[derive(Debug)]
pub struct Relay {
    address: String,
    control: Arc<Control>,
}

#[derive(Debug)]
struct Control {
    /// Bytes that may pass, in total over all connections.
    up: watch::Sender<u64>,
    down: watch::Sender<u64>,
    passed: [AtomicU64; 2],
    /// Raised to cut all connections.
    cut: watch::Sender<u64>,
    connections: AtomicU64,
}

impl Relay {
    /// Starts a relay to `upstream` (`HOST:PORT`).
    pub async fn start(upstream: &str, mut budgets: Budgets) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let control = Arc::new(Control {
            up: watch::Sender::new(u64::MAX),
            down: watch::Sender::new(u64::MAX),
            passed: Default::default(),
            cut: watch::Sender::new(0),
            connections: AtomicU64::new(0),
        });
        let (upstream, shared) = (upstream.to_owned(), Arc::clone(&control));
        tokio::spawn(async move {
            while let Ok((worker, _)) = listener.accept().await {
                let number = shared.connections.fetch_add(1, Ordering::Relaxed);
                let budgets = budgets(number);
                // A server that is down ends the connection, as it would without a relay.
                if let Ok(server) = TcpStream::connect(&upstream).await {
                    tokio::spawn(connection(worker, server, budgets, Arc::clone(&shared)));
                }
            }
        });
        Self { address, control }
    }

    /// `http://HOST:PORT` of the relay.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many connections there were.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.control.connections.load(Ordering::Relaxed)
    }

    /// Lets `bytes` more through that way, and then holds everything.
    pub fn hold_after(&self, way: Way, bytes: u64) {
        let passed = self.control.passed[way as usize].load(Ordering::Relaxed);
        self.control.limit(way).send_replace(passed + bytes);
    }

    /// Lets everything through again.
    pub fn release(&self, way: Way) {
        self.control.limit(way).send_replace(u64::MAX);
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        self.control.cut.send_modify(|cuts| *cuts += 1);
    }
}

impl Control {
    fn limit(&self, way: Way) -> &watch::Sender<u64> {
        match way {
            Way::Up => &self.up,
            Way::Down => &self.down,
        }
    }
}

async fn connection(
    worker: TcpStream,
    server: TcpStream,
    budgets: (Option<u64>, Option<u64>),
    control: Arc<Control>,
) {
    let _ = (worker.set_nodelay(true), server.set_nodelay(true));
    let mut cut = control.cut.subscribe();
    let (from_worker, to_worker) = worker.into_split();
    let (from_server, to_server) = server.into_split();
    // Whichever direction ends first takes the other with it: both sockets are dropped, and so closed.
    tokio::select! {
        // First: what a cut comes before is lost, also when the hold on it ends at the same time.
        biased;
        _ = cut.changed() => {}
        () = copy(from_worker, to_server, (Way::Up, budgets.0), &control) => {}
        () = copy(from_server, to_worker, (Way::Down, budgets.1), &control) => {}
    }
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    (way, mut budget): (Way, Option<u64>),
    control: &Control,
) {
    let mut limit = control.limit(way).subscribe();
    let passed = &control.passed[way as usize];
    let mut buffer = vec![0; 16 << 10];
    loop {
        let room = |limit: u64| limit.saturating_sub(passed.load(Ordering::Relaxed));
        let allowed = match limit.wait_for(|&limit| room(limit) > 0).await {
            Ok(limit) => room(*limit),
            Err(_) => return,
        };
        let most = allowed.min(budget.unwrap_or(u64::MAX)).min(buffer.len() as u64) as usize;
        let read = match from.read(&mut buffer[..most]).await {
            Ok(read) if read > 0 => read,
            _ => return,
        };
        // It may have been waiting to read when the hold began.
        let fits = limit.wait_for(|&limit| room(limit) >= read as u64).await.is_ok();
        if !fits || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
        passed.fetch_add(read as u64, Ordering::Relaxed);
        if let Some(left) = &mut budget {
            *left -= read as u64;
            if *left == 0 {
                return;
            }
        }
    }
}
