//! A body as messages.

use super::rope::Rope;
use crate::limits::MAX_MESSAGE_BYTES;
use bytes::Buf;
use http::HeaderMap;
use http_body::Body;
use std::marker::PhantomData;
use std::pin::Pin;
use tonic::Status;

/// What stands before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// Messages as they come.
pub struct Read<M> {
    body: Pin<Box<tonic::body::Body>>,
    bytes: Rope,
    /// The length of the message whose prefix was read.
    length: Option<usize>,
    messages: PhantomData<fn() -> M>,
}

impl<M> std::fmt::Debug for Read<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { bytes, length, .. } = self;
        f.debug_struct("Read")
            .field("bytes", bytes)
            .field("length", length)
            .finish()
    }
}

impl<M: prost::Message + Default> Read<M> {
    /// Of a request or response.
    pub fn new(body: tonic::body::Body) -> Self {
        Self {
            body: Box::pin(body),
            bytes: Rope::default(),
            length: None,
            messages: PhantomData,
        }
    }

    /// The next message; `None` at the end. May be dropped before it is done, and called again.
    ///
    /// # Errors
    /// The status that the peer ended the stream with, or what is wrong with its bytes.
    pub async fn message(&mut self) -> Result<Option<M>, Status> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            let body = &mut self.body;
            let frame = std::future::poll_fn(|context| body.as_mut().poll_frame(context)).await;
            let Some(frame) = frame.transpose()? else {
                return self.end();
            };
            match frame.into_data() {
                Ok(data) => self.bytes.push(data),
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        ended_well(&trailers)?;
                    }
                }
            }
        }
    }

    /// A message that is there whole.
    fn take(&mut self) -> Result<Option<M>, Status> {
        let length = match self.length {
            Some(length) => length,
            None if self.bytes.remaining() < PREFIX => return Ok(None),
            None => self.prefix()?,
        };
        self.length = Some(length);
        if self.bytes.remaining() < length {
            return Ok(None);
        }
        self.length = None;
        let bytes = self.bytes.split_to(length);
        let message = M::decode(bytes);
        message
            .map(Some)
            .map_err(|error| Status::internal(format!("a message that cannot be read: {error}")))
    }

    fn prefix(&mut self) -> Result<usize, Status> {
        if self.bytes.get_u8() != 0 {
            return Err(Status::unimplemented("compressed messages are not read"));
        }
        let length = self.bytes.get_u32() as usize;
        if length > MAX_MESSAGE_BYTES {
            return Err(Status::out_of_range(format!(
                "a message of {length} bytes, {MAX_MESSAGE_BYTES} at most"
            )));
        }
        Ok(length)
    }

    fn end(&self) -> Result<Option<M>, Status> {
        if self.bytes.remaining() > 0 || self.length.is_some() {
            return Err(Status::internal("the stream ended in the middle of a message"));
        }
        Ok(None)
    }
}

/// The status among headers or trailers, if it is an error.
pub(super) fn ended_well(headers: &HeaderMap) -> Result<(), Status> {
    match Status::from_header_map(headers) {
        Some(status) if status.code() != tonic::Code::Ok => Err(status),
        _ => Ok(()),
    }
}

/// The body of a response, if its headers say that there is one.
///
/// # Errors
/// The status that they hold instead.
pub fn body_of(response: http::Response<tonic::body::Body>) -> Result<tonic::body::Body, Status> {
    let (head, body) = response.into_parts();
    if head.status != http::StatusCode::OK {
        return Err(Status::unavailable(format!("HTTP status {}", head.status)));
    }
    ended_well(&head.headers)?;
    Ok(body)
}
