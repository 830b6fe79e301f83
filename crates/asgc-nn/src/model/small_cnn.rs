//! Two convolutions and two linear layers for one-channel images of 28 x 28: 55,338 parameters in 8 tensors.

use super::{Network, Parameter, convolution, fan_in, linear};
use crate::error::Error;
use tch::Tensor;

pub(super) fn parameters() -> Vec<Parameter> {
    let mut list = Vec::with_capacity(8);
    for (name, [outputs, inputs]) in [("conv1", [16, 1]), ("conv2", [32, 16])] {
        list.push(convolution(name, [outputs, inputs], 3));
        list.push(Parameter::new(
            format!("{name}.bias"),
            &[outputs],
            fan_in(inputs * 9),
        ));
    }
    list.extend(linear("fc1", [32, 32 * 7 * 7]));
    list.extend(linear("fc2", [10, 32]));
    list
}

/// `[n, 1, 28, 28]` to logits `[n, 10]`.
pub(super) fn forward(network: &Network, input: &Tensor) -> Result<Tensor, Error> {
    let p = &network.parameters;
    // ReLU never falls, so it may come behind the pooling, to the same bit: there it has a quarter of the values.
    let block = |x: &Tensor, weight: &Tensor, bias: &Tensor| {
        x.f_conv2d(weight, Some(bias), [1, 1], [1, 1], [1, 1], 1)?
            .f_max_pool2d([2, 2], [2, 2], [0, 0], [1, 1], false)?
            .f_relu_()
    };
    let x = block(input, &p[0], &p[1])?;
    let x = block(&x, &p[2], &p[3])?;
    let x = x.f_flatten(1, -1)?.f_linear(&p[4], Some(&p[5]))?.f_relu()?;
    Ok(x.f_linear(&p[6], Some(&p[7]))?)
}
