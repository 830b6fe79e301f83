//! A stream of messages as a body.

use super::{Bulky, DATA};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::Stream;
use http::HeaderMap;
use http_body::{Body, Frame};
use prost::encoding::{WireType, decode_varint, encode_key, encode_varint, encoded_len_varint, key_len};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tonic::Status;

/// Data of fewer bytes is copied behind its head: a buffer of its own would cost more.
const SHORT: usize = 4096;

/// Who writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// A request ends when the stream does.
    Client,
    /// A response ends with a status.
    Server,
}

/// Messages as they are written.
#[derive(Debug)]
pub struct Written<S> {
    messages: Pin<Box<S>>,
    side: Side,
    /// What goes behind the head that went out.
    data: Bytes,
    ended: bool,
}

impl<S> Written<S> {
    /// The body of `messages`.
    pub fn new(side: Side, messages: S) -> Self {
        Self {
            messages: Box::pin(messages),
            side,
            data: Bytes::new(),
            ended: false,
        }
    }
}

impl<S, M> Body for Written<S>
where
    S: Stream<Item = Result<M, Status>>,
    M: Bulky,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if !self.data.is_empty() {
            let data = std::mem::take(&mut self.data);
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        let status = match ready!(self.messages.as_mut().poll_next(context)) {
            Some(Ok(message)) => {
                let (head, data) = pieces(message);
                self.data = data;
                return Poll::Ready(Some(Ok(Frame::data(head))));
            }
            Some(Err(status)) => status,
            None => Status::ok(""),
        };
        self.ended = true;
        match self.side {
            Side::Server => Poll::Ready(Some(trailers(&status).map(Frame::trailers))),
            Side::Client if status.code() == tonic::Code::Ok => Poll::Ready(None),
            Side::Client => Poll::Ready(Some(Err(status))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.data.is_empty()
    }
}

fn trailers(status: &Status) -> Result<HeaderMap, Status> {
    let mut trailers = HeaderMap::new();
    status.add_header(&mut trailers)?;
    Ok(trailers)
}

/// A message as its head and its data; short data is in the head.
pub(super) fn pieces<M: Bulky>(mut message: M) -> (Bytes, Bytes) {
    let data = message.take_data();
    let mut body = message.encode_to_vec();
    if !data.is_empty() {
        body = with_room_for(&body, data.len());
    }
    let mut head = BytesMut::with_capacity(5 + body.len() + if data.len() < SHORT { data.len() } else { 0 });
    // Not compressed; the length.
    head.put_u8(0);
    head.put_u32((body.len() + data.len()) as u32);
    head.extend_from_slice(&body);
    if data.len() < SHORT {
        head.extend_from_slice(&data);
        return (head.freeze(), Bytes::new());
    }
    (head.freeze(), data)
}

/// An outer message with one message inside, whose last field is going to be data of `len` bytes: all but those. Fields may come
/// in any order.
fn with_room_for(body: &[u8], len: usize) -> Vec<u8> {
    let mut inner = body;
    // What prost wrote has a key and a length.
    let key = decode_varint(&mut inner).unwrap_or_default();
    let _ = decode_varint(&mut inner);
    let field = key_len(DATA) + encoded_len_varint(len as u64) + len;
    let mut out = Vec::with_capacity(body.len() + 16);
    encode_varint(key, &mut out);
    encode_varint((inner.len() + field) as u64, &mut out);
    out.extend_from_slice(inner);
    encode_key(DATA, WireType::LengthDelimited, &mut out);
    encode_varint(len as u64, &mut out);
    out
}
