//! Coming to the server, in a task of its own: whoever waits for it may be dropped and come again, and the try goes on.

use super::Options;
use crate::Error;
use crate::error::Meaning;
use crate::link::Link;
use crate::retry::Retry;
use asgc_core::server::Joining;
use tokio::task::JoinHandle;

/// Tries that are under way.
#[derive(Debug)]
pub(super) struct Opening(JoinHandle<Result<Link, Error>>);

impl Opening {
    /// Begins to try, for as long as the options say.
    pub(super) fn begin(options: &Options, joining: &Joining) -> Self {
        let retry = Retry::new(&options.server, options.give_up_after);
        Self(tokio::spawn(open(options.server.clone(), joining.clone(), retry)))
    }

    /// Waits for the outcome. May be dropped before it is done.
    pub(super) async fn link(&mut self) -> Result<Link, Error> {
        match (&mut self.0).await {
            Ok(opened) => opened,
            Err(ended) => Err(Error::Protocol(format!("connecting ended early: {ended}"))),
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn open(server: String, joining: Joining, mut retry: Retry) -> Result<Link, Error> {
    loop {
        match Link::open(&server, &joining).await {
            Ok(link) => return Ok(link),
            Err(Meaning::Fatal(error)) => return Err(error),
            Err(Meaning::Broken(why)) => retry.wait(why).await?,
        }
    }
}
