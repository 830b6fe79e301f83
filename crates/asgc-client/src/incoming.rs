//! What the server says, stamped with the moment it was there: a message may lie unread while the caller computes or
//! an injected delay passes, and that time is not the link's.

use asgc_proto::framing::Read;
use asgc_proto::v1::{self, server_message::Kind};
use std::time::Instant;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tonic::Status;

/// Messages that may lie unread: the verdicts on all pushes in flight, and some more. Behind them HTTP/2 holds the
/// server back.
const UNREAD: usize = 32;

/// When a message was there, and what it says.
pub(crate) type Said = (Instant, Kind);

/// The reading end of a stream.
#[derive(Debug)]
pub(crate) struct Incoming {
    messages: mpsc::Receiver<Result<Said, Status>>,
    reader: JoinHandle<()>,
}

impl Incoming {
    pub(crate) fn new(stream: Read<v1::ServerMessage>) -> Self {
        let (sender, messages) = mpsc::channel(UNREAD);
        Self {
            messages,
            reader: tokio::spawn(read(stream, sender)),
        }
    }

    /// The next message; `None` once the server has closed the stream. May be dropped before it is done.
    pub(crate) async fn next(&mut self) -> Result<Option<Said>, Status> {
        self.messages.recv().await.transpose()
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // A stream that nobody reads any more is to end now, and not at the server's next word.
        self.reader.abort();
    }
}

async fn read(mut stream: Read<v1::ServerMessage>, sender: mpsc::Sender<Result<Said, Status>>) {
    loop {
        let said = match stream.message().await {
            Ok(Some(v1::ServerMessage { kind: Some(kind) })) => Ok((Instant::now(), kind)),
            // A kind that this version does not know: a newer server's, and of no consequence to us.
            Ok(Some(v1::ServerMessage { kind: None })) => continue,
            Ok(None) => return,
            Err(status) => Err(status),
        };
        let ended = said.is_err();
        if sender.send(said).await.is_err() || ended {
            return;
        }
    }
}
