//! A process of this program that measures: it is told what to do in lines of JSON, and answers in such.

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{BufRead as _, Write as _};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The process, as the one that ordered it sees it.
#[derive(Debug)]
pub(super) struct Peer {
    // Killed with this value.
    _child: Child,
    pub(super) pid: u32,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    /// Starts `asgc bench ROLE`.
    pub(super) fn start(role: &str) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["bench", role])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {role}"))?;
        let (Some(orders), Some(answers), Some(pid)) = (child.stdin.take(), child.stdout.take(), child.id())
        else {
            bail!("{role} has no pipes");
        };
        Ok(Self {
            _child: child,
            pid,
            orders,
            answers: BufReader::new(answers).lines(),
        })
    }

    /// Gives an order; does not wait.
    pub(super) async fn order(&mut self, order: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        self.orders.write_all(&line).await.context("a client has ended")
    }

    /// The answer to the order given longest ago.
    pub(super) async fn answer<T: DeserializeOwned>(&mut self) -> Result<T> {
        match self.answers.next_line().await? {
            Some(line) => serde_json::from_str(&line).with_context(|| format!("a client said {line:?}")),
            None => bail!("a client ended early; its words are above"),
        }
    }

    /// Gives an order and waits for its answer.
    pub(super) async fn ask<T: DeserializeOwned>(&mut self, order: &impl Serialize) -> Result<T> {
        self.order(order).await?;
        self.answer().await
    }
}

/// The next order, on the process's side; `None` once there will be no more.
pub(super) fn next_order<T: DeserializeOwned>() -> Result<Option<T>> {
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line)? {
        0 => Ok(None),
        _ => Ok(Some(serde_json::from_str(&line)?)),
    }
}

/// Answers an order.
pub(super) fn reply(answer: &impl Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, answer)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}
