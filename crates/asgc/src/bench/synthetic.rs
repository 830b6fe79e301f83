//! Models and gradients that are shaped like real ones, made without libtorch.

use anyhow::Result;
use asgc_core::layout::{Layout, TensorSpec};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng as _;
use rand_distr::{Distribution as _, StandardNormal};

/// Tensors of a model get no smaller than this.
const LEAST: usize = 64;
/// Normal values are drawn once for so many entries and then repeated: drawing costs more than what is measured.
const DRAWN: usize = 1 << 20;

/// A model of so many parameters: tensors that halve in size, as layers of a network differ.
pub(super) fn layout(parameters: usize) -> Result<Layout> {
    let mut tensors = Vec::new();
    let mut left = parameters;
    while left > 0 {
        let len = if left > 2 * LEAST { left.div_ceil(2) } else { left };
        tensors.push(TensorSpec {
            name: format!("layer{}.weight", tensors.len()),
            shape: vec![len],
        });
        left -= len;
    }
    Ok(Layout::new(tensors)?)
}

/// Normal values whose scale differs from tensor to tensor: each layer's gradients are half as large as the last's.
pub(super) fn gradient(layout: &Layout, seed: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let drawn: Vec<f32> = (0..layout.parameters().min(DRAWN))
        .map(|_| StandardNormal.sample(&mut rng))
        .collect();
    let mut values = Vec::with_capacity(layout.parameters());
    for (layer, range) in layout.ranges().enumerate() {
        let scale = 1e-3 * 0.5f32.powi(layer.min(10) as i32);
        // Each time a little larger: gradients have few values twice.
        let normal =
            (range.start..).map(|i| drawn[i % drawn.len()] * (1.0 + 1e-4 * (i / drawn.len()) as f32));
        values.extend(normal.take(range.len()).map(|x| scale * x));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_is_in_one_tensor() {
        for parameters in [1, 63, 129, 1000, 11_173_962] {
            assert_eq!(layout(parameters).unwrap().parameters(), parameters);
        }
        assert_eq!(layout(1000).unwrap().tensors().len(), 4);
        assert!(layout(0).is_err());
    }

    #[test]
    fn gradients_are_scaled_by_layer_and_differ_by_seed() {
        let layout = layout(4000).unwrap();
        let values = gradient(&layout, 1);
        assert_eq!(values.len(), 4000);
        let rms = |values: &[f32]| (values.iter().map(|x| x * x).sum::<f32>() / values.len() as f32).sqrt();
        let ranges: Vec<_> = layout.ranges().collect();
        let ratio = rms(&values[ranges[0].clone()]) / rms(&values[ranges[1].clone()]);
        assert!((1.8..2.2).contains(&ratio), "{ratio}");
        assert_ne!(values, gradient(&layout, 2));
        assert_eq!(values, gradient(&layout, 1));
    }
}
