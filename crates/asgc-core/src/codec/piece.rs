//! One tensor's part of a payload, after it was checked.

/// Borrowed bytes of one piece. Every accessor relies on [`super::Payload::check`] having passed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Piece<'a> {
    Dense { values: &'a [u8] },
    Sparse { indices: &'a [u8], values: &'a [u8] },
    Quantized { scale: f32, codes: &'a [u8] },
}

/// The little-endian words of `bytes`, whatever their alignment.
pub(super) fn words(bytes: &[u8]) -> impl ExactSizeIterator<Item = [u8; 4]> + '_ {
    bytes.as_chunks::<4>().0.iter().copied()
}

/// The `f32` values of `bytes`.
pub(super) fn floats(bytes: &[u8]) -> impl ExactSizeIterator<Item = f32> + '_ {
    words(bytes).map(f32::from_le_bytes)
}

/// The `i32` indices of `bytes`, as unsigned: a negative one turns out far beyond any tensor.
pub(super) fn indices(bytes: &[u8]) -> impl ExactSizeIterator<Item = usize> + '_ {
    words(bytes).map(|word| u32::from_le_bytes(word) as usize)
}

impl Piece<'_> {
    /// Adds `alpha` times the entries `[from, from + target.len())` of the tensor to `target`.
    pub(super) fn add_scaled(self, alpha: f32, from: usize, target: &mut [f32]) {
        match self {
            Self::Dense { values } => {
                let values = &values[4 * from..4 * (from + target.len())];
                for (t, v) in target.iter_mut().zip(floats(values)) {
                    *t += alpha * v;
                }
            }
            Self::Sparse { indices: i, values } => {
                let (first, last) = span(i, from, target.len());
                let entries = indices(&i[4 * first..4 * last]).zip(floats(&values[4 * first..4 * last]));
                for (index, value) in entries {
                    target[index - from] += alpha * value;
                }
            }
            Self::Quantized { scale, codes } => {
                for (t, &code) in target.iter_mut().zip(&codes[from..]) {
                    // The decoded value is `code * scale`, rounded, before alpha: as the worker sees it.
                    *t += alpha * (f32::from(code.cast_signed()) * scale);
                }
            }
        }
    }

    /// Whether any entry of `[from, from + len)` is carried.
    pub(super) fn touches(self, from: usize, len: usize) -> bool {
        match self {
            Self::Dense { .. } => len > 0,
            Self::Sparse { indices, .. } => {
                let (first, last) = span(indices, from, len);
                first < last
            }
            Self::Quantized { scale, .. } => len > 0 && scale != 0.0,
        }
    }
}

/// Which of the rising `indices` lie in `[from, from + len)`.
fn span(indices: &[u8], from: usize, len: usize) -> (usize, usize) {
    let words = indices.as_chunks::<4>().0;
    let below = |bound: usize| words.partition_point(|&word| (u32::from_le_bytes(word) as usize) < bound);
    (below(from), below(from + len))
}
