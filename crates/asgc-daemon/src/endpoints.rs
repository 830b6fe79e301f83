//! The file in which a server tells its addresses once it is ready (`server.address_file`).
//!
//! One JSON object: `{"grpc":"127.0.0.1:41234","metrics":"127.0.0.1:41235","pid":123}`. It appears whole or
//! not at all, so whoever waits for it need not guess when it is complete.

use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoints {
    /// `HOST:PORT` for workers.
    pub grpc: String,
    /// `HOST:PORT` of `/metrics`, if it is served.
    #[serde(default)]
    pub metrics: Option<String>,
    /// The server's process, to tell its file from one that an earlier server left.
    pub pid: u32,
}

impl Endpoints {
    /// Writes the file, over one that is there. The folder must exist.
    ///
    /// # Errors
    /// When the file or its neighbour `*.new` cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let new = PathBuf::from(new);
        fs::write(&new, serde_json::to_vec(self)?)?;
        fs::rename(&new, path)
    }

    /// What the file says; `None` while the server `pid` has not written it.
    #[must_use]
    pub fn read(path: &Path, pid: u32) -> Option<Self> {
        let endpoints: Self = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        (endpoints.pid == pid).then_some(endpoints)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_file_of_the_right_server_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("endpoints.json");
        assert_eq!(Endpoints::read(&path, 7), None);
        let endpoints = Endpoints {
            grpc: "127.0.0.1:5".into(),
            metrics: Some("127.0.0.1:6".into()),
            pid: 7,
        };
        endpoints.write(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, r#"{"grpc":"127.0.0.1:5","metrics":"127.0.0.1:6","pid":7}"#);
        assert_eq!(Endpoints::read(&path, 7), Some(endpoints));
        assert_eq!(Endpoints::read(&path, 8), None);
        fs::write(&path, "{\"grpc\":").unwrap();
        assert_eq!(Endpoints::read(&path, 7), None);
    }
}
