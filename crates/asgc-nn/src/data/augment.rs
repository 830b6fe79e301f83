//! Augmentation of CIFAR's training images: a random crop of 32 x 32 out of the image with 4 pixels of black
//! around it, then a horizontal flip of every other one.

use super::shard::Cursor;
use crate::random;
use rand::Rng;

/// Black pixels on each side before the crop.
const PADDING: u64 = 4;

/// Where an output image is read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct View {
    /// Rows that the image moves up by, negative is down.
    pub(crate) down: isize,
    /// Columns that it moves left by, negative is right.
    pub(crate) across: isize,
    /// Left and right change places, after the move.
    pub(crate) flip: bool,
}

impl View {
    /// The image as it is.
    pub(crate) const IDENTITY: Self = Self {
        down: 0,
        across: 0,
        flip: false,
    };

    /// Uniform over the 9 x 9 crops and two sides, from 64 random bits.
    fn draw(bits: u64) -> Self {
        let offset = |bits: u64| {
            let choices = 2 * PADDING + 1;
            // The bias of 2^16 mod 9 is below 1 in 7000.
            (((bits & 0xffff) * choices) >> 16) as isize - PADDING as isize
        };
        Self {
            down: offset(bits),
            across: offset(bits >> 16),
            flip: bits >> 63 == 1,
        }
    }
}

/// Fills `views` for the batch that begins at `begin`: a function of seed and place alone, as the order is.
pub(crate) fn draw(seed: u64, begin: Cursor, views: &mut [View]) {
    let mut rng = random::generator(seed, begin.pass.wrapping_mul(2).wrapping_add(1));
    // Two 32-bit words a sample.
    rng.set_word_pos(2 * begin.position as u128);
    views
        .iter_mut()
        .for_each(|view| *view = View::draw(rng.next_u64()));
}

/// Writes the view of a `side` x `side` plane into `out`, through `table`; outside is black.
pub(crate) fn write_plane(plane: &[u8], side: usize, view: View, table: &[f32; 256], out: &mut [f32]) {
    let shifted = |i: usize, by: isize| i.checked_add_signed(by).filter(|&i| i < side);
    for (y, row) in out.chunks_exact_mut(side).enumerate() {
        match shifted(y, view.down) {
            None => row.fill(table[0]),
            Some(source) => {
                let source = &plane[source * side..][..side];
                for (x, value) in row.iter_mut().enumerate() {
                    *value = table[shifted(x, view.across).map_or(0, |x| usize::from(source[x]))];
                }
            }
        }
        if view.flip {
            row.reverse();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table() -> [f32; 256] {
        std::array::from_fn(|i| i as f32)
    }

    #[test]
    fn a_move_and_a_flip_by_hand() {
        let plane = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        let write = |view| {
            let mut out = [f32::NAN; 9];
            write_plane(&plane, 3, view, &table(), &mut out);
            out.map(|v| v as u8)
        };
        assert_eq!(write(View::IDENTITY), plane);
        assert_eq!(
            write(View {
                down: 1,
                across: 0,
                flip: false
            }),
            [4, 5, 6, 7, 8, 9, 0, 0, 0]
        );
        assert_eq!(
            write(View {
                down: 0,
                across: -1,
                flip: false
            }),
            [0, 1, 2, 0, 4, 5, 0, 7, 8]
        );
        assert_eq!(
            write(View {
                down: 0,
                across: -1,
                flip: true
            }),
            [2, 1, 0, 5, 4, 0, 8, 7, 0]
        );
        assert_eq!(
            write(View {
                down: -4,
                across: 4,
                flip: true
            }),
            [0; 9]
        );
    }

    #[test]
    fn every_crop_and_both_sides_come_up_about_as_often() {
        let mut views = vec![View::IDENTITY; 8100];
        draw(3, Cursor::default(), &mut views);
        for offset in -4..=4 {
            let rows = views.iter().filter(|v| v.down == offset).count();
            let columns = views.iter().filter(|v| v.across == offset).count();
            assert!(
                (700..1100).contains(&rows) && (700..1100).contains(&columns),
                "{offset}: {rows} {columns}"
            );
        }
        let flips = views.iter().filter(|v| v.flip).count();
        assert!((3800..4300).contains(&flips), "{flips}");
    }

    #[test]
    fn views_belong_to_a_place_and_not_to_a_history() {
        let mut views = vec![View::IDENTITY; 300];
        draw(3, Cursor { pass: 2, position: 0 }, &mut views);
        let mut tail = vec![View::IDENTITY; 100];
        draw(
            3,
            Cursor {
                pass: 2,
                position: 200,
            },
            &mut tail,
        );
        assert_eq!(views[200..], tail[..]);
    }

    proptest! {
        #[test]
        fn a_view_stays_in_its_bounds(bits in any::<u64>(), plane in prop::collection::vec(1u8.., 64)) {
            let view = View::draw(bits);
            prop_assert!(view.down.abs() <= 4 && view.across.abs() <= 4);
            let mut out = vec![f32::NAN; 64];
            write_plane(&plane, 8, view, &table(), &mut out);
            // What is not black padding is the part of the image that is still inside.
            let inside = (8 - view.down.unsigned_abs()) * (8 - view.across.unsigned_abs());
            prop_assert_eq!(out.iter().filter(|&&v| v > 0.0).count(), inside);
        }
    }
}
