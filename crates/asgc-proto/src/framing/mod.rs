//! gRPC messages whose bulk is never copied.
//!
//! tonic's codec writes each message into one buffer and reads it out of another. For messages that are nearly all `data`
//! that is two copies of everything that travels. Here a message goes out as two buffers, a short head and the data as it
//! lies in memory, and its data comes out of the buffer that it came in with. The bytes on the wire are the same: any gRPC peer
//! is at the other end.
//!
//! | room | what lives there |
//! |---|---|
//! | `write` | a stream of messages as the body of a request or response |
//! | `read` | a body as messages |
//! | `rope` | bytes in several pieces, as a protobuf reader likes them |

mod read;
mod rope;
#[cfg(test)]
mod tests;
mod write;

pub use read::{Read, body_of};
pub use write::{Side, Written};

use crate::v1::{self, server_message, worker_message};
use bytes::Bytes;

/// A message that may have much data, in field 15 of the one message inside it.
pub trait Bulky: prost::Message + Default {
    /// Takes the data out, which leaves none.
    fn take_data(&mut self) -> Bytes;
}

/// The number of the field `data` of every message that has one.
const DATA: u32 = 15;

impl Bulky for v1::ServerMessage {
    fn take_data(&mut self) -> Bytes {
        use server_message::Kind;
        match &mut self.kind {
            Some(Kind::Snapshot(message)) => std::mem::take(&mut message.data),
            Some(Kind::Delta(message)) => std::mem::take(&mut message.data),
            Some(Kind::Chunk(message)) => std::mem::take(&mut message.data),
            _ => Bytes::new(),
        }
    }
}

impl Bulky for v1::WorkerMessage {
    fn take_data(&mut self) -> Bytes {
        use worker_message::Kind;
        match &mut self.kind {
            Some(Kind::Push(message)) => std::mem::take(&mut message.data),
            Some(Kind::Chunk(message)) => std::mem::take(&mut message.data),
            Some(Kind::InitialParameters(message)) => std::mem::take(&mut message.data),
            Some(Kind::Evaluation(message)) => std::mem::take(&mut message.data),
            _ => Bytes::new(),
        }
    }
}
