//! A payload of known size, put together from the chunks of several messages.
//!
//! The one place that knows how the bytes are kept: as one buffer, which costs a copy of each chunk. Whoever can read a
//! payload from several buffers may have the chunks as they came, and spare it.

use bytes::{Bytes, BytesMut};

/// Bytes of known number.
#[derive(Debug)]
pub(crate) struct Assembly {
    size: u64,
    bytes: BytesMut,
}

impl Assembly {
    /// Room for `size` bytes, which the caller has checked against the layout: a peer must not choose it. It is taken at
    /// once, since growing would copy what is there again and again; the pages are the system's until they are written.
    pub(crate) fn new(size: u64) -> Self {
        Self {
            size,
            bytes: BytesMut::with_capacity(size as usize),
        }
    }

    /// Bytes that have not come yet.
    pub(crate) fn missing(&self) -> u64 {
        self.size - self.bytes.len() as u64
    }

    /// Takes a chunk; false, and nothing is taken, when it is more than is missing.
    pub(crate) fn append(&mut self, chunk: &[u8]) -> bool {
        let fits = chunk.len() as u64 <= self.missing();
        if fits {
            self.bytes.extend_from_slice(chunk);
        }
        fits
    }

    /// What came.
    pub(crate) fn into_bytes(self) -> Bytes {
        self.bytes.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_become_one_and_no_more_than_was_announced() {
        let mut assembly = Assembly::new(5);
        assert!(assembly.append(&[1, 2, 3]));
        assert_eq!(assembly.missing(), 2);
        assert!(!assembly.append(&[4, 5, 6]));
        assert_eq!(assembly.missing(), 2);
        assert!(assembly.append(&[4, 5]));
        assert_eq!(assembly.missing(), 0);
        assert_eq!(assembly.into_bytes(), [1, 2, 3, 4, 5][..]);
    }
}
