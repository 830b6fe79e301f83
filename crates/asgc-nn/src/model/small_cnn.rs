//! Two convolutions of 3 x 3 and two linear layers for one-channel images of 28 x 28, in 8 tensors.
//!
//! | network | padding | features | hidden | parameters |
//! |---|---|---|---|---|
//! | `small_cnn` | 1 | 32 x 7 x 7 | 32 | 55,338 |
//! | `toy_cnn` | none | 32 x 5 x 5 | 64 | 56,714 |
//!
//! The second is the field's toy: what comparisons of distributed trainers like to count bytes on.

use super::{Network, Parameter, convolution, fan_in, linear};
use crate::error::Error;
use tch::Tensor;

/// Padding and width.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    padding: i64,
    features: usize,
    hidden: usize,
}

pub(super) const SMALL: Shape = Shape {
    padding: 1,
    features: 32 * 7 * 7,
    hidden: 32,
};
pub(super) const TOY: Shape = Shape {
    padding: 0,
    features: 32 * 5 * 5,
    hidden: 64,
};

pub(super) fn parameters(shape: Shape) -> Vec<Parameter> {
    let mut list = Vec::with_capacity(8);
    for (name, [outputs, inputs]) in [("conv1", [16, 1]), ("conv2", [32, 16])] {
        list.push(convolution(name, [outputs, inputs], 3));
        list.push(Parameter::new(
            format!("{name}.bias"),
            &[outputs],
            fan_in(inputs * 9),
        ));
    }
    list.extend(linear("fc1", [shape.hidden, shape.features]));
    list.extend(linear("fc2", [10, shape.hidden]));
    list
}

/// `[n, 1, 28, 28]` to logits `[n, 10]`.
pub(super) fn forward(shape: Shape, network: &Network, input: &Tensor) -> Result<Tensor, Error> {
    let p = &network.parameters;
    // ReLU never falls, so it may come behind the pooling, to the same bit: there it has a quarter of the values.
    let block = |x: &Tensor, weight: &Tensor, bias: &Tensor| {
        x.f_conv2d(weight, Some(bias), [1, 1], [shape.padding; 2], [1, 1], 1)?
            .f_max_pool2d([2, 2], [2, 2], [0, 0], [1, 1], false)?
            .f_relu_()
    };
    let x = block(input, &p[0], &p[1])?;
    let x = block(&x, &p[2], &p[3])?;
    let x = x.f_flatten(1, -1)?.f_linear(&p[4], Some(&p[5]))?.f_relu()?;
    Ok(x.f_linear(&p[6], Some(&p[7]))?)
}
