//! One session's answers: verdicts go out between the chunks of a snapshot, never behind it.
//!
//! The outbox is bounded without a queue for bulk: a worker has at most one pull open, so there is at most one
//! answer, whose chunks and payloads are shared with the server itself until they are sent ([`bulk`]).

mod bulk;

use asgc_core::server::Answer;
use asgc_proto::v1::{self, server_message::Kind};
use bulk::Bulk;
use futures_util::stream::{self, Stream};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tonic::Status;

/// Verdicts that a worker may leave unread.
const MAX_UNREAD: usize = 1024;

/// What waits to be sent to one worker.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// Largest `data` of a message, in bytes.
    chunk_bytes: usize,
    waiting: Mutex<Waiting>,
    wake: Notify,
    closed: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    urgent: VecDeque<Kind>,
    bulk: Bulk,
    /// Counts answers, so that one that is being written does not take the place of the next.
    answers: u64,
    /// The stream ends once this is set: with a status at once, without one after all has been sent.
    end: Option<Option<Status>>,
}

impl Outbox {
    /// An empty one; no message has more than `chunk_bytes` bytes of data.
    pub(crate) fn new(chunk_bytes: usize) -> Self {
        Self {
            chunk_bytes,
            waiting: Mutex::default(),
            wake: Notify::new(),
            closed: Notify::new(),
        }
    }

    /// Sends a short message ahead of any snapshot.
    pub(crate) fn urgent(&self, kind: Kind) {
        let mut waiting = self.lock();
        if waiting.urgent.len() >= MAX_UNREAD {
            drop(waiting);
            let why = format!("{MAX_UNREAD} messages of the server were not read");
            self.close(Some(Status::resource_exhausted(why)));
            return;
        }
        waiting.urgent.push_back(kind);
        drop(waiting);
        self.wake.notify_one();
    }

    /// Answers a pull. What is left of an answer before it is dropped: only the last pull counts.
    pub(crate) fn answer(&self, answer: Answer) {
        let mut waiting = self.lock();
        waiting.bulk = Bulk::of(answer);
        waiting.answers += 1;
        drop(waiting);
        self.wake.notify_one();
    }

    /// Ends the stream: with an error at once, without one when everything has been sent.
    pub(crate) fn close(&self, status: Option<Status>) {
        self.lock().end.get_or_insert(status);
        self.wake.notify_one();
        self.closed.notify_one();
    }

    /// Returns once the outbox was closed.
    pub(crate) async fn closed(&self) {
        loop {
            let closed = self.closed.notified();
            if self.lock().end.is_some() {
                return;
            }
            closed.await;
        }
    }

    /// The messages, as they come.
    pub(crate) fn stream(self: Arc<Self>) -> impl Stream<Item = Result<v1::ServerMessage, Status>> {
        stream::unfold(Some(self), |outbox| async {
            let outbox = outbox?;
            match outbox.next().await {
                Some(Ok(kind)) => Some((Ok(v1::ServerMessage { kind: Some(kind) }), Some(outbox))),
                Some(Err(status)) => Some((Err(status), None)),
                None => None,
            }
        })
    }

    async fn next(&self) -> Option<Result<Kind, Status>> {
        loop {
            let woken = self.wake.notified();
            let (bulk, answers) = {
                let mut waiting = self.lock();
                if let Some(Some(status)) = &waiting.end {
                    return Some(Err(status.clone()));
                }
                if let Some(kind) = waiting.urgent.pop_front() {
                    return Some(Ok(kind));
                }
                if waiting.bulk.is_empty() && waiting.end.is_some() {
                    return None;
                }
                (std::mem::take(&mut waiting.bulk), waiting.answers)
            };
            if let Some(kind) = self.write(bulk, answers) {
                return Some(Ok(kind));
            }
            woken.await;
        }
    }

    /// The next message of an answer. It is made outside the lock: whoever has something urgent does not wait for it.
    fn write(&self, mut bulk: Bulk, answers: u64) -> Option<Kind> {
        let kind = bulk.next(self.chunk_bytes);
        let mut waiting = self.lock();
        if waiting.answers == answers {
            waiting.bulk = bulk;
            return kind;
        }
        // Another answer came meanwhile, and this one is not to be gone on with.
        drop(waiting);
        self.wake.notify_one();
        None
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing in here can panic half-way, so what a poisoned lock guards is still whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use asgc_core::ids::{Generation, Version};
    use asgc_core::parameters::Chunk;
    use tokio_stream::StreamExt as _;

    fn three_chunks(version: u64) -> Answer {
        let chunks = (0..3).map(|i| Chunk::from(vec![i as f32; 2])).collect();
        Answer::Snapshot {
            generation: Generation(1),
            version: Version(version),
            chunks,
            rounded: false,
        }
    }

    fn name(kind: Option<Result<v1::ServerMessage, Status>>) -> String {
        match kind {
            Some(Ok(v1::ServerMessage { kind: Some(kind) })) => match kind {
                Kind::Snapshot(snapshot) => format!("snapshot {}", snapshot.version),
                Kind::Chunk(_) => "chunk".into(),
                Kind::Verdict(verdict) => format!("verdict {}", verdict.push_id),
                other => format!("{other:?}"),
            },
            Some(Ok(_)) => "nothing".into(),
            Some(Err(status)) => format!("{:?}", status.code()),
            None => "end".into(),
        }
    }

    fn verdict(push_id: u64) -> Kind {
        Kind::Verdict(v1::Verdict {
            push_id,
            ..Default::default()
        })
    }

    #[tokio::test]
    async fn verdicts_go_between_chunks() {
        let outbox = Arc::new(Outbox::new(8));
        outbox.answer(three_chunks(7));
        let mut stream = Box::pin(Arc::clone(&outbox).stream());
        assert_eq!(name(stream.next().await), "snapshot 7");
        outbox.urgent(verdict(1));
        outbox.urgent(verdict(2));
        assert_eq!(name(stream.next().await), "verdict 1");
        assert_eq!(name(stream.next().await), "verdict 2");
        assert_eq!(name(stream.next().await), "chunk");
        outbox.close(None);
        assert_eq!(name(stream.next().await), "chunk");
        assert_eq!(name(stream.next().await), "end");
    }

    #[tokio::test]
    async fn controls_need_no_pull_and_come_ahead_of_a_snapshot() {
        let outbox = Arc::new(Outbox::new(8));
        let controls = v1::Controls {
            revision: 3,
            ..Default::default()
        };
        // Before the stream is opened: right after the admission.
        outbox.urgent(Kind::Controls(controls));
        outbox.answer(three_chunks(7));
        let mut stream = Box::pin(Arc::clone(&outbox).stream());
        assert!(name(stream.next().await).contains("revision: 3"));
        assert_eq!(name(stream.next().await), "snapshot 7");
    }

    #[tokio::test]
    async fn an_error_does_not_wait_for_the_snapshot() {
        let outbox = Arc::new(Outbox::new(8));
        outbox.answer(three_chunks(7));
        outbox.close(Some(Status::aborted("replaced")));
        let mut stream = Box::pin(Arc::clone(&outbox).stream());
        assert_eq!(name(stream.next().await), "Aborted");
        assert_eq!(name(stream.next().await), "end");
        outbox.closed().await;
    }

    #[tokio::test]
    async fn a_worker_that_does_not_read_is_cut_off() {
        let outbox = Arc::new(Outbox::new(8));
        (0..=MAX_UNREAD as u64).for_each(|push| outbox.urgent(verdict(push)));
        outbox.closed().await;
        let mut stream = Box::pin(Arc::clone(&outbox).stream());
        assert_eq!(name(stream.next().await), "ResourceExhausted");
    }
}
