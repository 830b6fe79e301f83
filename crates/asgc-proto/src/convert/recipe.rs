//! How a model's first parameters are drawn.

use super::{Malformed, malformed};
use crate::v1::{self, init::Distribution};
use asgc_core::initial::{Init, Recipe};
use asgc_core::layout::Layout;

/// `None` where the worker has none.
pub(super) fn recipe(message: &[v1::Init], layout: &Layout) -> Result<Option<Recipe>, Malformed> {
    if message.is_empty() {
        return Ok(None);
    }
    let init = |init: &v1::Init| match init.distribution {
        Some(Distribution::Constant(value)) => Some(Init::Constant(value)),
        Some(Distribution::Uniform(bound)) => Some(Init::Uniform(bound)),
        None => None,
    };
    // A distribution that this version does not know: the values are sent instead.
    let Some(inits) = message.iter().map(init).collect() else {
        return Ok(None);
    };
    let recipe = Recipe::new(inits, layout).map_err(|error| malformed(format!("recipe: {error}")))?;
    Ok(Some(recipe))
}

pub(super) fn recipe_message(recipe: &Recipe) -> Vec<v1::Init> {
    let init = |init: &Init| v1::Init {
        distribution: Some(match *init {
            Init::Constant(value) => Distribution::Constant(value),
            Init::Uniform(bound) => Distribution::Uniform(bound),
        }),
    };
    recipe.inits().iter().map(init).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use asgc_core::layout::TensorSpec;

    fn layout() -> Layout {
        let spec = |name: &str| TensorSpec {
            name: name.into(),
            shape: vec![2],
        };
        Layout::new(vec![spec("a"), spec("b")]).unwrap()
    }

    #[test]
    fn a_recipe_survives_the_trip() {
        let sent = Recipe::new(vec![Init::Uniform(0.25), Init::Constant(1.0)], &layout()).unwrap();
        assert_eq!(recipe(&recipe_message(&sent), &layout()).unwrap(), Some(sent));
    }

    #[test]
    fn none_and_a_newer_one_are_none_and_a_wrong_one_is_refused() {
        assert_eq!(recipe(&[], &layout()).unwrap(), None);
        let unknown = v1::Init { distribution: None };
        assert_eq!(recipe(&[unknown, unknown], &layout()).unwrap(), None);
        let constant = |value| v1::Init {
            distribution: Some(Distribution::Constant(value)),
        };
        assert!(recipe(&[constant(1.0)], &layout()).is_err());
        assert!(recipe(&[constant(1.0), constant(f32::NAN)], &layout()).is_err());
    }
}
