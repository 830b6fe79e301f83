//! A data set that needs no files: 12,000 + 2,000 images of 28 x 28 in ten classes, drawn by a procedure.
//!
//! A class is a handful of soft spots. A sample is its class, moved by up to three pixels, brighter or darker,
//! with a fainter image of another class laid over it and noise on top: too hard for a linear model, soon
//! learnt by a small convolutional one. The data set is one and the same in every run; a run's seed decides
//! only what is random in training.

use super::{CLASSES, Images, Part, Shape, Shard};
use crate::random::{below, generator, unit};
use asgc_core::config::Dataset;
use rand::Rng;

/// Mean and standard deviation of all training pixels.
pub(super) const NORMALISATION: (f32, f32) = (0.331, 0.226);

const SEED: u64 = 0x0a59_c0da_7a5e_7001;
const SIDE: usize = 28;
const REACH: usize = 3;
const TRAINING: usize = 12_000;
const TEST: usize = 2_000;
/// A class is drawn with a margin, for samples to move within.
const WIDE: usize = SIDE + 2 * REACH;

/// The images of `part` in `shard`; each depends on its number alone.
pub(super) fn draw(part: Part, shard: Shard) -> Images {
    let classes: Vec<Vec<f32>> = (0..u64::from(CLASSES)).map(prototype).collect();
    let numbers = match part {
        Part::Train => 0..TRAINING,
        Part::Test => TRAINING..TRAINING + TEST,
    };
    let first = numbers.start;
    let mut images = Images {
        shape: Shape::of(Dataset::Procedural),
        pixels: Vec::new(),
        labels: Vec::new(),
    };
    for number in numbers.filter(|number| shard.holds(number - first)) {
        let label = (number % usize::from(CLASSES)) as u8;
        images.labels.push(label);
        sample(number as u64, label, &classes, &mut images.pixels);
    }
    images
}

/// Soft spots in `[0, 1]` on a square of `WIDE`.
fn prototype(class: u64) -> Vec<f32> {
    let mut rng = generator(SEED, class);
    let mut plane = vec![0.0_f32; WIDE * WIDE];
    for _ in 0..5 {
        let centre = [0, 1].map(|_| REACH as f32 + 3.0 + unit(&mut rng) * (SIDE as f32 - 6.0));
        let width = 1.2 + 1.6 * unit(&mut rng);
        for (i, value) in plane.iter_mut().enumerate() {
            let (y, x) = ((i / WIDE) as f32 - centre[0], (i % WIDE) as f32 - centre[1]);
            *value = (*value + (-(y * y + x * x) / (2.0 * width * width)).exp()).min(1.0);
        }
    }
    plane
}

fn sample(number: u64, label: u8, classes: &[Vec<f32>], pixels: &mut Vec<u8>) {
    // Streams below CLASSES draw the classes.
    let mut rng = generator(SEED, number + u64::from(CLASSES));
    let other = (u32::from(label) + 1 + below(&mut rng, u32::from(CLASSES) - 1)) % u32::from(CLASSES);
    let mut layer = |strength: f32| {
        let [down, across] = [0, 1].map(|_| below(&mut rng, 2 * REACH as u32 + 1) as usize);
        (down * WIDE + across, strength * (0.6 + 0.4 * unit(&mut rng)))
    };
    let (front, back) = (layer(0.8), layer(0.55));
    let mut noise = [0; SIDE * SIDE];
    rng.fill_bytes(&mut noise);
    for (i, &noise) in noise.iter().enumerate() {
        let at = i / SIDE * WIDE + i % SIDE;
        let value = front.1 * classes[usize::from(label)][front.0 + at]
            + back.1 * classes[other as usize][back.0 + at]
            + 0.25 * f32::from(noise) / 255.0;
        // `as` saturates: what is brighter than white is white.
        pixels.push((255.0 * value) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_the_parts_of_the_whole() {
        let all = draw(Part::Test, Shard::ALL);
        assert_eq!((all.len(), all.pixels.len()), (TEST, TEST * 784));
        let third = draw(Part::Test, Shard::new(1, 3));
        assert_eq!(third.image(5), all.image(16));
        assert_eq!(third.labels[5], all.labels[16]);
        assert_ne!(draw(Part::Train, Shard::new(0, 100)).image(0), all.image(0));
    }

    #[test]
    fn the_stated_normalisation_fits() {
        let images = draw(Part::Train, Shard::new(0, 10));
        let n = images.pixels.len() as f64;
        let values = || images.pixels.iter().map(|&byte| f64::from(byte) / 255.0);
        let mean = values().sum::<f64>() / n;
        let deviation = (values().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
        let (stated_mean, stated_deviation) = NORMALISATION;
        let near = |one: f64, other: f32| (one - f64::from(other)).abs() < 0.01;
        assert!(
            near(mean, stated_mean) && near(deviation, stated_deviation),
            "{mean} {deviation}"
        );
    }
}
