//! Formats in which every entry is a number of its own: `f32`, bfloat16, binary16, and signs.

use super::Format;
use asgc_kernels as kernels;
use kernels::BLOCK;

/// Appends values in a dense format. Leaves what rounding took away in `values` where `keep` says so; returns its sum of squares.
pub(super) fn write(values: &mut [f32], (format, keep): (Format, bool), out: &mut Vec<u8>) -> f64 {
    let mut halves = [0u8; 2 * BLOCK];
    let mut rest = 0.0;
    for values in values.chunks_mut(BLOCK) {
        let halves = &mut halves[..2 * values.len()];
        match format {
            Format::Bf16 => kernels::encode_bf16(values, halves),
            Format::Fp16 => kernels::encode_fp16(values, halves),
            _ => {
                write_f32(values, out);
                if keep {
                    values.fill(0.0);
                }
                continue;
            }
        }
        out.extend_from_slice(halves);
        if keep {
            rest += kernels::sum_squares(values);
        }
    }
    rest
}

/// Appends a tensor's mean magnitude and signs. Leaves what that took away in `values`; returns its sum of squares.
pub(super) fn write_signs(values: &mut [f32], out: &mut Vec<u8>) -> f64 {
    let scale = (kernels::sum_magnitudes(values) / values.len().max(1) as f64) as f32;
    out.extend_from_slice(&scale.to_le_bytes());
    let from = out.len();
    out.resize(from + values.len().div_ceil(8), 0);
    kernels::encode_signs(values, scale, &mut out[from..]);
    kernels::sum_squares(values)
}

fn write_f32(values: &[f32], out: &mut Vec<u8>) {
    // One call a slice rather than a value: on a little-endian machine this is a plain copy.
    if cfg!(target_endian = "little") {
        out.extend_from_slice(bytemuck::must_cast_slice(values));
    } else {
        values
            .iter()
            .for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::piece::floats;
    use super::*;

    #[test]
    fn signs_keep_the_mean_magnitude() {
        let (mut values, mut bytes) = ([1.0f32, -3.0, 0.0, -0.0], Vec::new());
        let rest = write_signs(&mut values, &mut bytes);
        assert_eq!((floats(&bytes[..4]).next(), bytes[4]), (Some(1.0), 0b1010));
        assert_eq!((values, rest), ([0.0, -2.0, -1.0, 1.0], 6.0));
    }
}
