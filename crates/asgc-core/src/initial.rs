//! First parameters that both sides draw from the run's seed, so that nobody sends them.
//!
//! A worker says by which distribution each tensor starts; the server draws the values, and tells their digest. Whoever
//! draws values of the same digest holds version 0. The draws are written out here, so that no library's update moves them.

use crate::layout::Layout;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use sha2::{Digest as _, Sha256};

/// How the entries of one tensor start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// All with this value.
    Constant(f32),
    /// Uniform in `[-bound, bound)`.
    Uniform(f32),
}

/// How all tensors of a model start, in layout order.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe(Vec<Init>);

/// SHA-256 of parameters as little-endian `f32`, flat, in layout order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest(pub [u8; 32]);

/// A list that is no recipe for a layout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotARecipe {
    /// Another number of tensors.
    #[error("{found} distributions for {tensors} tensors")]
    Count {
        /// Distributions given.
        found: usize,
        /// Tensors of the layout.
        tensors: usize,
    },
    /// A bound or constant that is not finite, or a bound below 0.
    #[error("tensor {tensor} would start with {value}")]
    Value {
        /// Index of the tensor.
        tensor: usize,
        /// What was given, in words.
        value: String,
    },
}

impl Recipe {
    /// One distribution for each tensor of `layout`.
    ///
    /// # Errors
    /// When there are more or fewer, or one would make values that are not finite.
    pub fn new(inits: Vec<Init>, layout: &Layout) -> Result<Self, NotARecipe> {
        let tensors = layout.tensors().len();
        if inits.len() != tensors {
            let found = inits.len();
            return Err(NotARecipe::Count { found, tensors });
        }
        let sound = |init: &Init| match *init {
            Init::Constant(value) => value.is_finite(),
            Init::Uniform(bound) => bound.is_finite() && bound >= 0.0,
        };
        match inits.iter().position(|init| !sound(init)) {
            None => Ok(Self(inits)),
            Some(tensor) => Err(NotARecipe::Value {
                tensor,
                value: format!("{:?}", inits[tensor]),
            }),
        }
    }

    /// The distributions, in layout order.
    #[must_use]
    pub fn inits(&self) -> &[Init] {
        &self.0
    }

    /// The first parameters of `layout`, flat: the same for the same seed on every machine.
    #[must_use]
    pub fn draw(&self, layout: &Layout, seed: u64) -> Vec<f32> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut flat = Vec::with_capacity(layout.parameters());
        for (init, range) in self.0.iter().zip(layout.ranges()) {
            match *init {
                Init::Constant(value) => flat.resize(flat.len() + range.len(), value),
                Init::Uniform(bound) => flat.extend(range.map(|_| (2.0 * unit(&mut rng) - 1.0) * bound)),
            }
        }
        flat
    }
}

impl Digest {
    /// That of flat parameters.
    #[must_use]
    pub fn of(parameters: &[f32]) -> Self {
        let mut hash = Sha256::new();
        // In pieces: a copy of all of them would double the model.
        for piece in parameters.chunks(1 << 14) {
            let bytes = piece.iter().flat_map(|value| value.to_le_bytes());
            hash.update(bytes.collect::<Vec<u8>>());
        }
        Self(hash.finalize().into())
    }
}

/// Uniform in `[0, 1)`, in steps of 2^-24, which `f32` holds exactly.
pub fn unit(rng: &mut impl Rng) -> f32 {
    (rng.next_u32() >> 8) as f32 * (1.0 / 16_777_216.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::TensorSpec;

    fn layout() -> Layout {
        let spec = |name: &str, shape: &[usize]| TensorSpec {
            name: name.into(),
            shape: shape.to_vec(),
        };
        Layout::new(vec![spec("w", &[2, 3]), spec("n", &[2]), spec("b", &[1])]).unwrap()
    }

    fn recipe() -> Recipe {
        let inits = vec![Init::Uniform(0.5), Init::Constant(1.0), Init::Uniform(2.0)];
        Recipe::new(inits, &layout()).unwrap()
    }

    #[test]
    fn values_keep_to_their_distributions_and_depend_on_the_seed_alone() {
        let drawn = recipe().draw(&layout(), 3);
        assert_eq!(drawn.len(), 9);
        assert!(drawn[..6].iter().all(|value| (-0.5..0.5).contains(value)));
        assert_eq!(drawn[6..8], [1.0, 1.0]);
        assert_eq!(drawn, recipe().draw(&layout(), 3));
        assert_ne!(drawn, recipe().draw(&layout(), 4));
        assert_ne!(Digest::of(&drawn), Digest::of(&recipe().draw(&layout(), 4)));
    }

    #[test]
    fn a_list_that_is_no_recipe_is_refused() {
        let of = |inits| Recipe::new(inits, &layout()).unwrap_err().to_string();
        assert_eq!(of(vec![Init::Constant(0.0)]), "1 distributions for 3 tensors");
        for bad in [
            Init::Uniform(-1.0),
            Init::Uniform(f32::INFINITY),
            Init::Constant(f32::NAN),
        ] {
            let said = of(vec![Init::Constant(0.0), bad, Init::Constant(0.0)]);
            assert!(said.starts_with("tensor 1 would start with"), "{said}");
        }
    }
}
