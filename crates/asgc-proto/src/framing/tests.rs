use super::write::pieces;
use super::*;
use http::HeaderMap;
use http_body::{Body, Frame};
use proptest::prelude::*;
use prost::Message as _;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tonic::{Code, Status};

/// Frames that are there already.
struct Frames(VecDeque<Frame<Bytes>>);

impl Body for Frames {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

/// The result of a future that never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

fn reader(frames: impl IntoIterator<Item = Frame<Bytes>>) -> Read<v1::ServerMessage> {
    Read::new(tonic::body::Body::new(Frames(frames.into_iter().collect())))
}

/// `bytes` cut at the places where `cuts` says.
fn cut(bytes: &[u8], cuts: &[usize]) -> Vec<Frame<Bytes>> {
    let mut frames = Vec::new();
    let mut rest = Bytes::copy_from_slice(bytes);
    for &at in cuts {
        let piece = rest.split_to((at % 300).min(rest.len()));
        frames.push(Frame::data(piece));
    }
    frames.push(Frame::data(rest));
    frames
}

fn chunk(data: Vec<u8>) -> v1::ServerMessage {
    let kind = server_message::Kind::Chunk(v1::Chunk { data: data.into() });
    v1::ServerMessage { kind: Some(kind) }
}

fn snapshot(version: u64, data: Vec<u8>) -> v1::ServerMessage {
    let kind = server_message::Kind::Snapshot(v1::Snapshot {
        generation: 3,
        version,
        size_bytes: data.len() as u64,
        r#type: 1,
        data: data.into(),
    });
    v1::ServerMessage { kind: Some(kind) }
}

fn verdict(push_id: u64) -> v1::ServerMessage {
    let kind = server_message::Kind::Verdict(v1::Verdict {
        push_id,
        weight: 0.5,
        ..v1::Verdict::default()
    });
    v1::ServerMessage { kind: Some(kind) }
}

fn message() -> impl Strategy<Value = v1::ServerMessage> {
    let data = || {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            prop::collection::vec(any::<u8>(), 4000..5000)
        ]
    };
    prop_oneof![
        data().prop_map(chunk),
        (any::<u64>(), data()).prop_map(|(version, data)| snapshot(version, data)),
        any::<u64>().prop_map(verdict),
        Just(v1::ServerMessage { kind: None }),
    ]
}

fn written(message: &v1::ServerMessage) -> Vec<u8> {
    let (head, data) = pieces(message.clone());
    [&head[..], &data].concat()
}

proptest! {
    #[test]
    fn any_peer_reads_what_is_written(message in message()) {
        let bytes = written(&message);
        prop_assert_eq!(bytes[0], 0);
        prop_assert_eq!(u32::from_be_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]) as usize, bytes.len() - 5);
        prop_assert_eq!(v1::ServerMessage::decode(&bytes[5..]).unwrap(), message);
    }

    #[test]
    fn messages_are_read_however_they_are_cut(
        messages in prop::collection::vec(message(), 0..6),
        cuts in prop::collection::vec(any::<usize>(), 0..20),
    ) {
        let bytes = messages.iter().flat_map(written).collect::<Vec<_>>();
        let mut reader = reader(cut(&bytes, &cuts));
        for message in messages {
            prop_assert_eq!(now(reader.message()).unwrap(), Some(message));
        }
        prop_assert_eq!(now(reader.message()).unwrap(), None);
    }

    #[test]
    fn rubbish_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..100), cuts in prop::collection::vec(any::<usize>(), 0..5)) {
        let mut reader = reader(cut(&bytes, &cuts));
        while let Ok(Some(_)) = now(reader.message()) {}
    }
}

#[test]
fn pushes_have_fields_behind_their_data_and_are_read_all_the_same() {
    let push = v1::PushHeader {
        push_id: 7,
        gradient_norm: 1.5,
        pipeline_depth: 2,
        data: vec![9; 10_000].into(),
        ..v1::PushHeader::default()
    };
    let message = v1::WorkerMessage {
        kind: Some(worker_message::Kind::Push(push)),
    };
    let (head, data) = pieces(message.clone());
    assert!(head.len() < 100 && data.len() == 10_000);
    let bytes = [&head[..], &data].concat();
    assert_eq!(v1::WorkerMessage::decode(&bytes[5..]).unwrap(), message);
}

#[test]
fn large_data_is_the_buffer_that_it_was() {
    let data = Bytes::from(vec![1u8; 1 << 20]);
    let kind = server_message::Kind::Chunk(v1::Chunk { data: data.clone() });
    let (head, out) = pieces(v1::ServerMessage { kind: Some(kind) });
    assert_eq!(out.as_ptr(), data.as_ptr());
    let read = now(reader([Frame::data(head), Frame::data(out)]).message()).unwrap();
    let Some(server_message::Kind::Chunk(chunk)) = read.and_then(|message| message.kind) else {
        panic!("a chunk")
    };
    assert_eq!(chunk.data.as_ptr(), data.as_ptr());
}

#[test]
fn what_is_wrong_is_said() {
    let mut too_long = vec![0];
    too_long.extend_from_slice(&u32::MAX.to_be_bytes());
    let code = |bytes: &[u8]| now(reader(cut(bytes, &[])).message()).unwrap_err().code();
    assert_eq!(code(&too_long), Code::OutOfRange);
    assert_eq!(code(&[1, 0, 0, 0, 0]), Code::Unimplemented);
    assert_eq!(code(&[0, 0, 0, 0, 9, 1]), Code::Internal, "half a message");
    assert_eq!(code(&[0, 0]), Code::Internal, "half a prefix");
    assert_eq!(code(&[0, 0, 0, 0, 1, 0xff]), Code::Internal, "no protobuf");
}

#[test]
fn a_status_ends_a_response_and_is_read() {
    let messages = [Ok(verdict(1)), Err(Status::aborted("replaced"))];
    let mut body = Box::pin(Written::new(Side::Server, futures_util::stream::iter(messages)));
    let mut frames = VecDeque::new();
    while let Poll::Ready(Some(frame)) = body.as_mut().poll_frame(&mut Context::from_waker(Waker::noop())) {
        frames.push_back(frame.unwrap());
    }
    assert!(body.is_end_stream());
    let mut reader = reader(frames);
    assert_eq!(now(reader.message()).unwrap(), Some(verdict(1)));
    let status = now(reader.message()).unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Aborted, "replaced"));
}

#[test]
fn a_response_without_a_body_is_its_status() {
    let response = Status::not_found("nothing").into_http::<tonic::body::Body>();
    assert_eq!(body_of(response).unwrap_err().code(), Code::NotFound);
    let mut response = http::Response::new(tonic::body::Body::default());
    *response.status_mut() = http::StatusCode::BAD_GATEWAY;
    assert_eq!(body_of(response).unwrap_err().code(), Code::Unavailable);
    let mut fine = HeaderMap::new();
    fine.insert("grpc-status", http::HeaderValue::from_static("0"));
    assert!(read::ended_well(&fine).is_ok());
}
