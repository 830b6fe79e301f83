//! The models: names, shapes and first parameters, and the forward pass on libtorch.

mod network;
mod resnet;
mod small_cnn;

pub(crate) use network::{MOMENTUM, Mode, Network};

use crate::error::Error;
use asgc_core::config::Model;
use asgc_core::initial::{Init, Recipe};
use asgc_core::layout::{Layout, TensorSpec};

/// One parameter tensor of a model.
#[derive(Debug, Clone, PartialEq)]
struct Parameter {
    name: String,
    shape: Vec<usize>,
    init: Init,
}

impl Parameter {
    fn new(name: String, shape: &[usize], init: Init) -> Self {
        Self {
            name,
            shape: shape.to_vec(),
            init,
        }
    }
}

/// PyTorch's default for convolutions and linear layers, `kaiming_uniform(a = sqrt 5)`: the bound
/// `sqrt(6 / ((1 + a^2) * fan_in))` comes to `1 / sqrt(fan_in)`, which biases have as well.
fn fan_in(n: usize) -> Init {
    Init::Uniform(1.0 / (n as f32).sqrt())
}

/// The weight `[outputs, inputs, kernel, kernel]` of a convolution.
fn convolution(name: &str, [outputs, inputs]: [usize; 2], kernel: usize) -> Parameter {
    let init = fan_in(inputs * kernel * kernel);
    Parameter::new(format!("{name}.weight"), &[outputs, inputs, kernel, kernel], init)
}

/// The weight `[outputs, inputs]` and bias `[outputs]` of a linear layer.
fn linear(name: &str, [outputs, inputs]: [usize; 2]) -> [Parameter; 2] {
    [
        Parameter::new(format!("{name}.weight"), &[outputs, inputs], fan_in(inputs)),
        Parameter::new(format!("{name}.bias"), &[outputs], fan_in(inputs)),
    ]
}

/// Weight and bias of a batch norm over `channels`.
fn norm(name: &str, channels: usize) -> [Parameter; 2] {
    [
        Parameter::new(format!("{name}.weight"), &[channels], Init::Constant(1.0)),
        Parameter::new(format!("{name}.bias"), &[channels], Init::Constant(0.0)),
    ]
}

fn parameters(model: Model) -> Result<Vec<Parameter>, Error> {
    match model {
        Model::SmallCnn => Ok(small_cnn::parameters(small_cnn::SMALL)),
        Model::ToyCnn => Ok(small_cnn::parameters(small_cnn::TOY)),
        Model::Resnet8 => Ok(resnet::parameters(resnet::RESNET8)),
        Model::Resnet18 => Ok(resnet::parameters(resnet::RESNET18)),
        Model::Quadratic | Model::Logistic => Err(Error::Synthetic(model)),
    }
}

/// The parameter tensors of `model` in order, named as in PyTorch's `state_dict`. Buffers (the batch-norm
/// statistics) are not among them: no gradient ever moves those.
///
/// # Errors
/// [`Error::Synthetic`] for an objective that is no network.
pub fn layout(model: Model) -> Result<Layout, Error> {
    let spec = |p: Parameter| TensorSpec {
        name: p.name,
        shape: p.shape,
    };
    Ok(Layout::new(parameters(model)?.into_iter().map(spec).collect())?)
}

/// The first parameters of `model` as one flat vector in layout order: PyTorch's default distributions, drawn
/// from `seed` alone, so the same on every machine, device and number of threads.
///
/// # Errors
/// [`Error::Synthetic`] for an objective that is no network.
pub fn initial_parameters(model: Model, seed: u64) -> Result<Vec<f32>, Error> {
    Ok(recipe(model)?.draw(&layout(model)?, seed))
}

/// How the first parameters of `model` are drawn.
///
/// # Errors
/// [`Error::Synthetic`] for an objective that is no network.
pub fn recipe(model: Model) -> Result<Recipe, Error> {
    let inits = parameters(model)?.into_iter().map(|p| p.init).collect();
    Recipe::new(inits, &layout(model)?).map_err(Error::Recipe)
}

#[cfg(test)]
mod tests;
