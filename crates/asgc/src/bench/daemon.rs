//! The real `asgc-server`, in a folder of its own that goes away with it.

use crate::cluster::{ENDPOINTS_FILE, describe};
use crate::local::Setup;
use crate::programs;
use anyhow::{Context as _, Result, bail};
use asgc_daemon::endpoints::Endpoints;
use std::fs::{self, File};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

/// How long a server may take to be ready.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at its file of addresses.
const POLL: Duration = Duration::from_millis(10);

/// A server, killed with this value: nothing that it would write at its end is wanted.
#[derive(Debug)]
pub(super) struct Daemon {
    _child: Child,
    _folder: TempDir,
    endpoints: Endpoints,
}

impl Daemon {
    /// Starts a server whose run has no end of its own. `settings` come after those of every bench, and `own`, which the
    /// user gave, after them.
    pub(super) async fn start(settings: &[String], own: &[String]) -> Result<Self> {
        let program = programs::find("asgc-server")?;
        let folder = tempfile::Builder::new().prefix("asgc-bench-").tempdir()?;
        let place = |name: &str| folder.path().join(name);
        let mut set = vec![
            "server.listen=127.0.0.1:0".to_owned(),
            "telemetry.metrics_listen=127.0.0.1:0".to_owned(),
            "telemetry.log=warn".to_owned(),
            format!("run.results_dir={}", folder.path().display()),
            format!("server.address_file={}", place(ENDPOINTS_FILE).display()),
            "workload.max_updates=1000000000".to_owned(),
            "workload.max_wall_time_s=1000000".to_owned(),
            "workload.eval_interval=1000000000".to_owned(),
        ];
        set.extend(settings.iter().chain(own).cloned());
        // Checked here, so that what is wrong is told as for any other command.
        Setup::load(None, set.clone(), false)?;
        let log = File::create(place("server.log"))?;
        let mut child = Command::new(&program)
            .args(set.iter().flat_map(|set| ["--set", set]))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| program.display().to_string())?;
        let endpoints = ready(&mut child, &folder).await?;
        Ok(Self {
            _child: child,
            _folder: folder,
            endpoints,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.endpoints.pid
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.endpoints.grpc)
    }

    /// What `/metrics` says now.
    pub(super) async fn metrics(&self) -> Result<String> {
        let address = self
            .endpoints
            .metrics
            .as_deref()
            .context("the server has no metrics")?;
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut page = String::new();
        stream.read_to_string(&mut page).await?;
        Ok(page)
    }
}

async fn ready(child: &mut Child, folder: &TempDir) -> Result<Endpoints> {
    let pid = child.id().unwrap_or_default();
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(endpoints) = Endpoints::read(&folder.path().join(ENDPOINTS_FILE), pid) {
            return Ok(endpoints);
        }
        let log = || fs::read_to_string(folder.path().join("server.log")).unwrap_or_default();
        if let Some(status) = child.try_wait()? {
            bail!("asgc-server {}:\n{}", describe(status), log().trim());
        }
        if Instant::now() > deadline {
            bail!("asgc-server was not ready within {PATIENCE:?}:\n{}", log().trim());
        }
        sleep(POLL).await;
    }
}

/// The sum of all samples of a metric whose labels contain `label`.
pub(super) fn sum(page: &str, name: &str, label: &str) -> f64 {
    let samples = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        // Another metric whose name only begins in the same way is not meant.
        rest.starts_with(['{', ' ']).then_some(rest)
    });
    let values = samples
        .filter(|rest| rest.contains(label))
        .filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_by_name_and_label() {
        let page = "# HELP a_total x\na_total{d=\"up\"} 3\na_total{d=\"down\"} 4\na_total_more 9\nb 1e3\n";
        assert_eq!(sum(page, "a_total", ""), 7.0);
        assert_eq!(sum(page, "a_total", "\"up\""), 3.0);
        assert_eq!(sum(page, "b", ""), 1000.0);
        assert_eq!(sum(page, "none", ""), 0.0);
    }
}
