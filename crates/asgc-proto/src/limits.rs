//! Sizes that both sides of the wire agree on.

/// Largest gRPC message that either side takes, in bytes: a chunk and generous room for its header. Models are
/// sent in chunks, so this does not grow with them.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Largest `server.chunk_bytes`.
pub const MAX_CHUNK_BYTES: usize = 2 << 20;

/// HTTP/2 frame size, in bytes: a chunk and what stands before it in its message, so that a message is one frame. With a
/// frame as large as the chunk, every message had a second one of a dozen bytes, with system calls of its own at both
/// ends.
pub const FRAME_BYTES: u32 = (MAX_CHUNK_BYTES + (1 << 10)) as u32;

/// HTTP/2 window of a stream, in bytes: what an unread stream may hold.
pub const STREAM_WINDOW_BYTES: u32 = 16 << 20;

/// HTTP/2 window of a connection, in bytes.
pub const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;

/// Largest header list, in bytes.
pub const MAX_HEADER_BYTES: u32 = 8 << 10;

/// Longest name that a worker may give itself, in bytes.
pub const MAX_NAME_BYTES: usize = 200;
