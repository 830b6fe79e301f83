use super::*;
use crate::dispatch::Level;
use crate::dispatch::tests::{at, levels};
use proptest::prelude::*;

/// What a scan does: where there is something to add, up to how much may be found, whether it is taken out.
#[derive(Debug, Clone, Copy)]
struct How<'a> {
    e: Option<&'a [f32]>,
    limit: usize,
    taking: bool,
}

/// `u` after a scan at a level, what was found, and the sums.
fn scanned(level: Level, g: &[f32], threshold: u32, how: How<'_>) -> (Vec<f32>, Found, Squares) {
    let (mut u, mut found) = (g.to_vec(), Found::default());
    if how.taking {
        found.begin_taking(how.limit);
    } else {
        found.begin(how.limit);
    }
    let squares = at(level, || scan(&mut u, how.e, (7, threshold), &mut found));
    (u, found, squares)
}

fn all(e: &[f32], taking: bool) -> How<'_> {
    How {
        e: Some(e),
        limit: e.len(),
        taking,
    }
}

#[test]
fn one_pass_adds_sums_and_filters() {
    for level in levels() {
        for (taking, left) in [(false, -5.0), (true, 0.0)] {
            let how = all(&[0.0, -3.0, 0.25], taking);
            let (mut u, found, squares) = scanned(level, &[1.0, -2.0, 0.5], magnitude_bits(1.0), how);
            assert_eq!(u, [1.0, left, 0.75]);
            assert_eq!((found.indices(), found.values()), (&[8][..], &[-5.0][..]));
            let (before, rest) = (5.25, 1.5625);
            assert_eq!(squares, Squares { before, rest });
            found.put_back(&mut u, 7);
            assert_eq!(u, [1.0, -5.0, 0.75]);
        }
    }
}

#[test]
fn what_was_found_is_parted() {
    let how = all(&[0.0; 4], true);
    let (mut u, mut found, _) = scanned(Level::Portable, &[1.0, -2.0, 0.5, 3.0], magnitude_bits(0.75), how);
    let (mut above, mut others) = (Found::default(), Found::default());
    let left = found.split(magnitude_bits(1.5), &mut above, &mut others);
    assert_eq!(
        (above.indices(), above.values()),
        (&[8, 10][..], &[-2.0, 3.0][..])
    );
    assert_eq!((others.indices(), others.values()), (&[7][..], &[1.0][..]));
    assert_eq!(left, 1.0);
    others.put_back(&mut u, 7);
    assert_eq!(u, [1.0, 0.0, 0.5, 0.0]);
}

#[test]
fn what_is_not_finite_is_always_found() {
    for level in levels() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let how = all(&[0.0, 1.0], false);
            let (_, found, _) = scanned(level, &[0.0, bad], magnitude_bits(f32::MAX), how);
            assert_eq!(found.indices(), [8]);
        }
    }
}

#[test]
fn beyond_the_limit_it_goes_on_adding_and_takes_nothing() {
    let e = vec![1.0; 3 * BLOCK];
    for level in levels() {
        for taking in [false, true] {
            let how = How {
                limit: 10,
                ..all(&e, taking)
            };
            let (mut u, found, _) = scanned(level, &vec![2.0; 3 * BLOCK], 0, how);
            assert!(found.overflown() && found.indices().len() == BLOCK);
            found.put_back(&mut u, 7);
            assert_eq!(u, [3.0; 3 * BLOCK]);
        }
    }
}

#[test]
fn what_is_found_once_is_forgotten_at_the_next_beginning() {
    let mut found = Found::default();
    found.begin_taking(1);
    scan(&mut vec![1.0; 2 * BLOCK], None, (0, 0), &mut found);
    assert!(found.overflown());
    found.begin(9);
    let mut u = [1.0, 0.0];
    scan(&mut u, None, (0, 0), &mut found);
    assert_eq!(
        (found.indices(), found.overflown(), u),
        (&[0][..], false, [1.0, 0.0])
    );
}

proptest! {
    #[test]
    fn it_finds_what_a_plain_loop_finds(
        pairs in prop::collection::vec((-1.0f32..1.0, prop_oneof![Just(0.0f32), -1e25f32..1e25, -1e-30f32..1e-30]), 0..10_000),
        threshold in prop_oneof![0.0f32..1.5, Just(0.0f32)],
        (adds, taking) in any::<(bool, bool)>(),
    ) {
        let (g, e): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
        let how = How { e: adds.then_some(&e[..]), limit: g.len(), taking };
        let sum: Vec<f32> = g.iter().zip(&e).map(|(g, e)| if adds { g + e } else { *g }).collect();
        let (within, exceeding): (Vec<f32>, Vec<f32>) = sum.iter().partition(|v| v.abs() <= threshold);
        let square = |v: &f32| f64::from(*v) * f64::from(*v);
        let rest: f64 = within.iter().map(square).sum();
        let bits = magnitude_bits(threshold);
        let (plain_u, plain, plain_squares) = scanned(Level::Portable, &g, bits, how);
        prop_assert_eq!(plain.values(), &exceeding);
        prop_assert!((plain_squares.rest - rest).abs() <= 1e-5 * rest);
        for level in levels() {
            let (mut u, found, squares) = scanned(level, &g, bits, how);
            prop_assert_eq!(&u, &plain_u);
            prop_assert_eq!(found.indices(), plain.indices());
            prop_assert_eq!(found.values(), plain.values());
            prop_assert_eq!(squares, plain_squares);
            let limit = magnitude_bits(1.5 * threshold);
            let within: Vec<u32> = exceeding.iter().map(|&v| magnitude_bits(v)).filter(|&m| m <= limit).collect();
            prop_assert_eq!(at(level, || found.magnitudes_up_to(limit, &mut Vec::new()).to_vec()), within);
            found.put_back(&mut u, 7);
            prop_assert_eq!(&u, &sum);
        }
    }
}
