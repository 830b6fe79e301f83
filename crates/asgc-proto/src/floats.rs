//! `f32` vectors as the little-endian bytes that travel.

use bytes::Bytes;

/// A shared vector of floats that lends itself as bytes, without a copy on little-endian machines.
#[derive(Debug, Clone)]
pub struct FloatsAsBytes<T>(T);

impl<T: AsRef<[f32]>> AsRef<[u8]> for FloatsAsBytes<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::must_cast_slice(self.0.as_ref())
    }
}

/// The bytes of `floats`.
pub fn floats_to_bytes<T: AsRef<[f32]> + Send + 'static>(floats: T) -> Bytes {
    if cfg!(target_endian = "little") {
        Bytes::from_owner(FloatsAsBytes(floats))
    } else {
        floats
            .as_ref()
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    }
}

/// Appends the floats in `bytes` to `out`; a remainder of less than 4 bytes is left out.
pub fn bytes_to_floats(bytes: &[u8], out: &mut Vec<f32>) {
    out.extend(
        bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|&word| f32::from_le_bytes(word)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_survive_the_trip_from_any_alignment() {
        let floats = vec![1.5f32, -0.0, f32::MIN_POSITIVE, 3e38];
        let bytes = floats_to_bytes(floats.clone());
        assert_eq!(bytes[..4], 1.5f32.to_le_bytes());
        let shifted = [&[0u8][..], &bytes].concat();
        let mut back = Vec::new();
        bytes_to_floats(&shifted[1..], &mut back);
        assert_eq!(back, floats);
    }
}
