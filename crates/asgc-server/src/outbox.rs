//! One session's answers: verdicts go out between the chunks of a snapshot, never behind it.
//!
//! The outbox is bounded without a queue for bulk: a worker has at most one pull open, so there is at most one
//! snapshot, whose chunks are shared with the parameters themselves until they are sent.

use asgc_core::parameters::Chunk;
use asgc_core::server::Answer;
use asgc_proto::floats_to_bytes;
use asgc_proto::v1::{self, server_message::Kind};
use bytes::Bytes;
use futures_util::stream::{self, Stream};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tonic::Status;

/// Verdicts that a worker may leave unread.
const MAX_UNREAD: usize = 1024;

/// What waits to be sent to one worker.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: Mutex<Waiting>,
    wake: Notify,
    closed: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    urgent: VecDeque<Kind>,
    bulk: VecDeque<Kind>,
    /// The stream ends once this is set: with a status at once, without one after all has been sent.
    end: Option<Option<Status>>,
}

impl Outbox {
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
        let messages = match answer {
            Answer::Snapshot {
                generation,
                version,
                chunks,
            } => snapshot(generation.0, version.0, &chunks),
            Answer::Unchanged { generation, version } => {
                let at = v1::Unchanged {
                    generation: generation.0,
                    version: version.0,
                };
                VecDeque::from([Kind::Unchanged(at)])
            }
            Answer::Stop { reason } => VecDeque::from([Kind::Stop(v1::Stop {
                reason: reason.to_string(),
            })]),
        };
        self.lock().bulk = messages;
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
            {
                let mut waiting = self.lock();
                if let Some(Some(status)) = &waiting.end {
                    return Some(Err(status.clone()));
                }
                let kind = waiting.urgent.pop_front().or_else(|| waiting.bulk.pop_front());
                if let Some(kind) = kind {
                    return Some(Ok(kind));
                }
                if waiting.end.is_some() {
                    return None;
                }
            }
            woken.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing in here can panic half-way, so what a poisoned lock guards is still whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn snapshot(generation: u64, version: u64, chunks: &[Chunk]) -> VecDeque<Kind> {
    let size_bytes = chunks.iter().map(|chunk| 4 * chunk.len() as u64).sum();
    let mut data = chunks.iter().map(|chunk| floats_to_bytes(Arc::clone(chunk)));
    let first = data.next().unwrap_or_else(Bytes::new);
    let head = v1::Snapshot {
        generation,
        version,
        size_bytes,
        data: first,
    };
    let rest = data.map(|data| Kind::Chunk(v1::Chunk { data }));
    std::iter::once(Kind::Snapshot(head)).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use asgc_core::ids::{Generation, Version};
    use tokio_stream::StreamExt as _;

    fn three_chunks(version: u64) -> Answer {
        let chunks = (0..3).map(|i| Chunk::from(vec![i as f32; 2])).collect();
        Answer::Snapshot {
            generation: Generation(1),
            version: Version(version),
            chunks,
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
        let outbox = Arc::new(Outbox::default());
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
        let outbox = Arc::new(Outbox::default());
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
        let outbox = Arc::new(Outbox::default());
        outbox.answer(three_chunks(7));
        outbox.close(Some(Status::aborted("replaced")));
        let mut stream = Box::pin(Arc::clone(&outbox).stream());
        assert_eq!(name(stream.next().await), "Aborted");
        assert_eq!(name(stream.next().await), "end");
        outbox.closed().await;
    }

    #[tokio::test]
    async fn a_worker_that_does_not_read_is_cut_off() {
        let outbox = Arc::new(Outbox::default());
        (0..=MAX_UNREAD as u64).for_each(|push| outbox.urgent(verdict(push)));
        outbox.closed().await;
        let mut stream = Box::pin(Arc::clone(&outbox).stream());
        assert_eq!(name(stream.next().await), "ResourceExhausted");
    }
}
