//! Rates that change in mid-run, by the run's own clock.

use super::net::Network;
use super::rate::Rate;
use crate::output;
use crate::tail::Tail;
use anyhow::Result;
use asgc_core::event::Event;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::sleep;

/// Between two looks at whether the run has begun.
const POLL: Duration = Duration::from_millis(50);

/// One change: the uplinks from then on, worker by worker.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Timed {
    pub(super) at_s: f64,
    pub(super) rates: Vec<Rate>,
}

/// Applies `changes`, which are in order of time, to the run whose log is to be `log`. Begin before the run does.
///
/// Returns only when it fails.
pub(super) async fn apply(changes: &[Timed], network: Option<&Network>, log: PathBuf) -> anyhow::Error {
    match try_apply(changes, network, log).await {
        Ok(()) => std::future::pending().await,
        Err(error) => error,
    }
}

async fn try_apply(changes: &[Timed], network: Option<&Network>, log: PathBuf) -> Result<()> {
    let (Some(network), false) = (network, changes.is_empty()) else {
        return Ok(());
    };
    let began_s = begin(log).await?;
    for change in changes {
        let left_s = (began_s + change.at_s - unix_s()).max(0.0);
        sleep(Duration::try_from_secs_f64(left_s)?).await;
        let mut words = Vec::new();
        for (worker, rate) in (0..).zip(&change.rates) {
            network.shape_uplink(worker, Some(*rate))?;
            words.push(rate.to_string());
        }
        output::note(&format!("{} s: uplinks now {}", change.at_s, words.join(", ")));
    }
    Ok(())
}

/// When the run began, in Unix seconds: what its log's first line says.
async fn begin(log: PathBuf) -> Result<f64> {
    let called_s = unix_s();
    let mut tail = Tail::new(log);
    loop {
        for event in tail.poll()? {
            match event {
                // Until the server starts, the log is that of an earlier run.
                Event::RunStart(start) if start.started_at >= called_s => return Ok(start.started_at),
                _ => {}
            }
        }
        sleep(POLL).await;
    }
}

fn unix_s() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn write(path: &Path, started_at: f64) {
        let line = format!(
            r#"{{"event":"run_start","config_name":"x","num_workers":2,"dataset":"d","model":"m","batch_size":8,
            "compute_delay":{{}},"comm_delay_ms":0,"bandwidth_mbps":0,"started_at":{started_at},"seed":0,"generation":1,
            "mode":"async","compression":"identity","error_feedback":false,"parameters":1,"layout":"l","max_updates":1,
            "target_accuracy":null}}"#
        );
        let new = path.with_extension("new");
        fs::write(&new, line.replace('\n', "") + "\n").unwrap();
        fs::rename(new, path).unwrap();
    }

    #[tokio::test]
    async fn the_log_of_an_earlier_run_is_not_taken_for_this_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        write(&path, 1.0);
        let waiting = tokio::spawn(begin(path.clone()));
        // It has looked at the old log once before the new one is there.
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        let started_at = unix_s() + 5.0;
        write(&path, started_at);
        assert_eq!(waiting.await.unwrap().unwrap(), started_at);
    }
}
