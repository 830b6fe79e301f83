//! The file in which a server tells its addresses once it is ready.

use serde::Deserialize;
use std::path::Path;

/// The name of that file in a run's folder.
pub(crate) const ENDPOINTS_FILE: &str = "endpoints.json";

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Endpoints {
    /// `HOST:PORT` for workers.
    pub(crate) grpc: String,
    /// `HOST:PORT` of `/metrics`, if it is served.
    #[serde(default)]
    pub(crate) metrics: Option<String>,
    /// The server's process, to tell its file from one that an earlier server left.
    pub(crate) pid: u32,
}

/// What the file says, once the server `pid` has written all of it.
pub(crate) fn read(path: &Path, pid: Option<u32>) -> Option<Endpoints> {
    let endpoints: Endpoints = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    (Some(endpoints.pid) == pid).then_some(endpoints)
}
