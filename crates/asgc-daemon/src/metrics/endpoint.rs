//! `/metrics`, `/healthz` and `/readyz` over HTTP.

use super::Registry;
use crate::shutdown::Shutdown;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::net::TcpListener;

/// What `/readyz` says. Clones share it.
#[derive(Debug, Clone)]
pub struct Health {
    state: Arc<RwLock<Readiness>>,
}

#[derive(Debug)]
enum Readiness {
    Ready,
    Waiting(String),
    Draining,
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

impl Health {
    /// Not ready: starting.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: Arc::new(RwLock::new(Readiness::Waiting("starting".into()))),
        }
    }

    /// From now on `/readyz` answers 200, unless the drain has begun.
    pub fn set_ready(&self) {
        self.set(Readiness::Ready);
    }

    /// From now on `/readyz` answers 503 and says `reason`.
    pub fn set_not_ready(&self, reason: impl Into<String>) {
        self.set(Readiness::Waiting(reason.into()));
    }

    /// From now on, and for good, `/readyz` answers 503 and says that the process drains.
    pub fn drain(&self) {
        self.set(Readiness::Draining);
    }

    /// `None` when ready, else why not.
    #[must_use]
    pub fn not_ready(&self) -> Option<String> {
        match &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            Readiness::Ready => None,
            Readiness::Waiting(reason) => Some(reason.clone()),
            Readiness::Draining => Some("draining".into()),
        }
    }

    fn set(&self, next: Readiness) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*state, Readiness::Draining) {
            *state = next;
        }
    }
}

/// The address could not be taken.
#[derive(Debug, thiserror::Error)]
#[error("telemetry.metrics_listen {address}: {source}")]
pub struct BindError {
    address: String,
    source: io::Error,
}

/// The HTTP server of one process, bound and not yet serving.
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
    registry: Registry,
    health: Health,
}

impl Endpoint {
    /// Takes the address `listen`, `HOST:PORT`; port 0 takes a free one.
    ///
    /// # Errors
    /// When the address is not one or is taken.
    pub async fn bind(listen: &str, registry: Registry, health: Health) -> Result<Self, BindError> {
        let fail = |source| BindError {
            address: listen.to_owned(),
            source,
        };
        let listener = TcpListener::bind(listen).await.map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        Ok(Self {
            listener,
            address,
            registry,
            health,
        })
    }

    /// The address that was taken.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` is asked for and the requests under way are answered.
    ///
    /// # Errors
    /// When the listener breaks.
    pub async fn run(self, shutdown: Shutdown) -> io::Result<()> {
        let router = Router::new()
            .route("/metrics", get(metrics).with_state(self.registry))
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(readyz).with_state(self.health));
        axum::serve(self.listener, router)
            .with_graceful_shutdown(async move { shutdown.requested().await })
            .await
    }
}

async fn metrics(State(registry): State<Registry>) -> Response {
    match registry.encode() {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn readyz(State(health): State<Health>) -> Response {
    match health.not_ready() {
        None => "ready\n".into_response(),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")).into_response(),
    }
}
