//! Identity: `n` values as little-endian `f32`, 4 bytes each. Decoding gives the very same numbers.

use bytes::{BufMut, BytesMut};

pub(super) fn encode(values: &[f32], out: &mut BytesMut) {
    out.reserve(4 * values.len());
    // One call a slice rather than a value: on a little-endian machine this is a plain copy.
    if cfg!(target_endian = "little") {
        out.put_slice(bytemuck::must_cast_slice(values));
    } else {
        values.iter().for_each(|&value| out.put_f32_le(value));
    }
}
