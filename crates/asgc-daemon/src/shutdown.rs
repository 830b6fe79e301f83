//! SIGTERM and SIGINT: the first asks for a drain, the second ends the process at once.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Tells everything that holds a clone to drain. It is asked for once and never taken back.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    token: CancellationToken,
}

impl Shutdown {
    /// A handle on which nothing has been asked for yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for a drain; asking again changes nothing.
    pub fn request(&self) {
        self.token.cancel();
    }

    /// Whether a drain has been asked for.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits until a drain is asked for; at once where it has been. Safe to use in `select!`.
    pub async fn requested(&self) {
        self.token.cancelled().await;
    }
}

/// The two signals that end a daemon.
#[derive(Debug)]
pub struct Signals {
    term: Signal,
    int: Signal,
}

impl Signals {
    /// Takes the signals over from their defaults. Needs a tokio runtime.
    ///
    /// # Errors
    /// When the kernel refuses the handlers.
    pub fn install() -> io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
        })
    }

    /// The next signal, as the exit code that shells use for it: 143 for SIGTERM, 130 for SIGINT.
    pub async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.term.recv() => 143,
            _ = self.int.recv() => 130,
        }
    }

    /// Asks `shutdown` for a drain at the first signal; returns the exit code at the second.
    pub async fn watch(mut self, shutdown: Shutdown) -> u8 {
        let code = self.next().await;
        let name = if code == 143 { "SIGTERM" } else { "SIGINT" };
        tracing::info!("{name}: draining; a second signal ends the process at once");
        shutdown.request();
        self.next().await
    }
}
