//! Bytes in several pieces.

use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;

/// Pieces, one behind the other. What lies in one piece is taken out of it without a copy.
#[derive(Debug, Default)]
pub(super) struct Rope {
    pieces: VecDeque<Bytes>,
    len: usize,
}

impl Rope {
    pub(super) fn push(&mut self, piece: Bytes) {
        self.len += piece.len();
        // An empty piece would read as the end.
        self.pieces.extend((!piece.is_empty()).then_some(piece));
    }

    /// Takes the first `len` bytes, of which there are enough.
    pub(super) fn split_to(&mut self, len: usize) -> Self {
        let mut head = Self::default();
        while head.len < len {
            let Some(mut piece) = self.pieces.pop_front() else {
                break;
            };
            let wanted = len - head.len;
            if piece.len() > wanted {
                let rest = piece.split_off(wanted);
                self.pieces.push_front(rest);
            }
            self.len -= piece.len();
            head.push(piece);
        }
        head
    }
}

impl Buf for Rope {
    fn remaining(&self) -> usize {
        self.len
    }

    fn chunk(&self) -> &[u8] {
        self.pieces.front().map_or(&[], |piece| piece)
    }

    fn advance(&mut self, count: usize) {
        drop(self.split_to(count));
    }

    fn copy_to_bytes(&mut self, len: usize) -> Bytes {
        let mut head = self.split_to(len);
        if head.pieces.len() <= 1 {
            return head.pieces.pop_front().unwrap_or_default();
        }
        let mut joined = BytesMut::with_capacity(len);
        head.pieces
            .iter()
            .for_each(|piece| joined.extend_from_slice(piece));
        joined.freeze()
    }
}
