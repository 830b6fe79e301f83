//! How fast workers compute when that is all they do.

use crate::cluster::describe;
use crate::local::{Programs, Setup};
use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use std::process::Stdio;
use tokio::process::Command as Process;

/// What `asgc-worker bench-compute` prints as its last line.
#[derive(Debug, PartialEq, Deserialize)]
struct Computed {
    /// Forward and backward passes.
    steps: u64,
    elapsed_s: f64,
}

/// Steps a second of all trainers together, computing at once.
pub(super) async fn steps_per_s(seconds: u32, setup: &Setup, programs: &Programs) -> Result<f64> {
    let workers: Vec<_> = (0..setup.config().workload.num_workers)
        .map(|id| {
            Process::new(&programs.worker)
                .arg("bench-compute")
                .args(setup.flags())
                .args(["--seconds", &seconds.to_string(), "--id", &id.to_string()])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .process_group(0)
                .kill_on_drop(true)
                .spawn()
        })
        .collect::<Result<_, _>>()
        .with_context(|| programs.worker.display().to_string())?;
    let mut total = 0.0;
    for worker in workers {
        let output = worker.wait_with_output().await?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            bail!(
                "asgc-worker bench-compute {}:\n{}",
                describe(output.status),
                words.trim()
            );
        }
        total += last_line(&String::from_utf8_lossy(&output.stdout))?;
    }
    Ok(total)
}

fn last_line(stdout: &str) -> Result<f64> {
    let line = stdout.lines().last().unwrap_or_default();
    let computed: Computed = serde_json::from_str(line)
        .with_context(|| format!("asgc-worker bench-compute printed {line:?}, not its result"))?;
    if computed.steps == 0 || computed.elapsed_s <= 0.0 {
        bail!("asgc-worker bench-compute made no step; give it more --seconds");
    }
    Ok(computed.steps as f64 / computed.elapsed_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts() {
        assert_eq!(
            last_line("loading\n{\"steps\":120,\"elapsed_s\":10.0}\n").unwrap(),
            12.0
        );
        let error = last_line("nothing\n").unwrap_err().to_string();
        assert_eq!(
            error,
            "asgc-worker bench-compute printed \"nothing\", not its result"
        );
        assert!(last_line("{\"steps\":0,\"elapsed_s\":10.0}").is_err());
    }
}
