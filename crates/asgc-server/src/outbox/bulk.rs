//! An answer to a pull, message by message: each is made when there is room for it.

use asgc_core::downlink::Delta;
use asgc_core::parameters::{Chunk, to_bf16};
use asgc_core::server::Answer;
use asgc_proto::v1::{self, server_message::Kind};
use asgc_proto::{convert, floats_to_bytes};
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::sync::Arc;

/// What is left of an answer.
#[derive(Debug, Default)]
pub(super) enum Bulk {
    #[default]
    Nothing,
    /// One short message.
    Short(Kind),
    /// All parameters; the head goes with the first chunk.
    Chunks {
        head: Option<v1::Snapshot>,
        rounded: bool,
        chunks: VecDeque<Chunk>,
    },
    /// Nothing of it has gone out.
    Delta(Box<Delta>),
    /// What goes behind a delta's first message.
    Rest(VecDeque<Bytes>),
}

impl Bulk {
    pub(super) fn of(answer: Answer) -> Self {
        match answer {
            Answer::Snapshot {
                generation,
                version,
                chunks,
                rounded,
            } => {
                let width = if rounded { 2 } else { 4 };
                let size_bytes = chunks.iter().map(|chunk| width * chunk.len() as u64).sum();
                let head = v1::Snapshot {
                    generation: generation.0,
                    version: version.0,
                    size_bytes,
                    r#type: convert::parameter_type_message(rounded).into(),
                    data: Bytes::new(),
                };
                Self::Chunks {
                    head: Some(head),
                    rounded,
                    chunks: chunks.into(),
                }
            }
            Answer::Delta(delta) => Self::Delta(Box::new(delta)),
            Answer::Unchanged { generation, version } => Self::Short(Kind::Unchanged(v1::Unchanged {
                generation: generation.0,
                version: version.0,
            })),
            Answer::Stop { reason } => Self::Short(Kind::Stop(v1::Stop {
                reason: reason.to_string(),
            })),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// The next message, with at most `chunk_bytes` bytes of data.
    pub(super) fn next(&mut self, chunk_bytes: usize) -> Option<Kind> {
        match std::mem::take(self) {
            Self::Nothing => None,
            Self::Short(kind) => Some(kind),
            Self::Chunks {
                head,
                rounded,
                mut chunks,
            } => {
                let data = chunks.pop_front().map(|chunk| written(&chunk, rounded));
                let data = data.unwrap_or_default();
                if !chunks.is_empty() {
                    *self = Self::Chunks {
                        head: None,
                        rounded,
                        chunks,
                    };
                }
                Some(match head {
                    Some(head) => Kind::Snapshot(v1::Snapshot { data, ..head }),
                    None => Kind::Chunk(v1::Chunk { data }),
                })
            }
            Self::Delta(delta) => {
                let delta = delta.shortest();
                let mut pieces = pieces(&delta, chunk_bytes);
                let data = pieces.pop_front().unwrap_or_default();
                *self = Self::rest(pieces);
                Some(Kind::Delta(v1::Delta {
                    data,
                    ..convert::delta_message(&delta)
                }))
            }
            Self::Rest(mut pieces) => {
                let data = pieces.pop_front()?;
                *self = Self::rest(pieces);
                Some(Kind::Chunk(v1::Chunk { data }))
            }
        }
    }

    fn rest(pieces: VecDeque<Bytes>) -> Self {
        if pieces.is_empty() {
            Self::Nothing
        } else {
            Self::Rest(pieces)
        }
    }
}

fn written(chunk: &Chunk, rounded: bool) -> Bytes {
    match rounded {
        true => to_bf16(chunk).into(),
        false => floats_to_bytes(Arc::clone(chunk)),
    }
}

/// The payloads of a delta in pieces of at most `chunk_bytes`: short ones are put together, long ones are shared.
fn pieces(delta: &Delta, chunk_bytes: usize) -> VecDeque<Bytes> {
    let (mut pieces, mut short) = (VecDeque::new(), BytesMut::new());
    let sent = delta.records.iter().filter(|record| record.own.is_none());
    for record in sent {
        let mut bytes = record.payload.bytes.clone();
        if short.len() + bytes.len() <= chunk_bytes {
            short.extend_from_slice(&bytes);
            continue;
        }
        if !short.is_empty() {
            pieces.push_back(short.split().freeze());
        }
        while bytes.len() > chunk_bytes {
            pieces.push_back(bytes.split_to(chunk_bytes));
        }
        if bytes.len() > chunk_bytes / 2 {
            pieces.push_back(bytes);
        } else {
            short.extend_from_slice(&bytes);
        }
    }
    if !short.is_empty() {
        pieces.push_back(short.freeze());
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use asgc_core::codec::{Format, Payload};
    use asgc_core::downlink::{How, Record};
    use asgc_core::ids::{Generation, PushId, Version};

    fn record(own: Option<PushId>, bytes: &[u8]) -> Record {
        Record {
            how: How::Add(1.0),
            own,
            payload: Payload {
                format: Format::TopKPacked,
                entries: Vec::new(),
                bytes: Bytes::copy_from_slice(bytes),
            },
        }
    }

    fn delta(records: Vec<Record>) -> Delta {
        Delta {
            generation: Generation(1),
            base: Version(0),
            version: Version(1),
            records,
            whole: None,
        }
    }

    /// The data of all messages, which are at most `chunk_bytes` long.
    fn sent(answer: Answer, chunk_bytes: usize) -> (Kind, Vec<u8>) {
        let mut bulk = Bulk::of(answer);
        let first = bulk.next(chunk_bytes).unwrap();
        let mut data = match &first {
            Kind::Snapshot(head) => head.data.to_vec(),
            Kind::Delta(head) => head.data.to_vec(),
            other => panic!("{other:?}"),
        };
        assert!(data.len() <= chunk_bytes);
        while let Some(kind) = bulk.next(chunk_bytes) {
            let Kind::Chunk(chunk) = kind else {
                panic!("{kind:?}")
            };
            assert!((1..=chunk_bytes).contains(&chunk.data.len()));
            data.extend_from_slice(&chunk.data);
        }
        assert!(bulk.is_empty());
        (first, data)
    }

    #[test]
    fn payloads_go_out_one_behind_the_other_without_the_reader_s_own() {
        let records = || {
            vec![
                record(None, &[1; 3]),
                record(Some(PushId(4)), &[9; 50]),
                record(None, &[2; 25]),
                record(None, &[3; 9]),
                record(None, &[]),
                record(None, &[4; 10]),
            ]
        };
        let expected = [&[1u8; 3][..], &[2; 25], &[3; 9], &[4; 10]].concat();
        for chunk_bytes in 1..60 {
            let (first, data) = sent(Answer::Delta(delta(records())), chunk_bytes);
            assert_eq!(data, expected, "chunks of {chunk_bytes}");
            let Kind::Delta(head) = first else {
                panic!("{first:?}")
            };
            assert_eq!((head.size_bytes, head.records.len()), (expected.len() as u64, 6));
        }
    }

    #[test]
    fn a_delta_without_records_is_a_message_too() {
        let (_, data) = sent(Answer::Delta(delta(Vec::new())), 8);
        assert!(data.is_empty());
    }

    #[test]
    fn a_rounded_snapshot_has_two_bytes_a_value() {
        let snapshot = |rounded| Answer::Snapshot {
            generation: Generation(1),
            version: Version(2),
            chunks: vec![[1.0f32, 2.0].into(), [-3.0f32].into()],
            rounded,
        };
        let (first, data) = sent(snapshot(true), 8);
        assert_eq!(data, [0x80, 0x3f, 0x00, 0x40, 0x40, 0xc0]);
        let Kind::Snapshot(head) = first else {
            panic!("{first:?}")
        };
        assert_eq!(head.size_bytes, 6);
        assert_eq!(sent(snapshot(false), 8).1.len(), 12);
    }
}
