//! Residual networks for CIFAR (He et al. 2015, as torchvision names their parts).
//!
//! | network | stages | blocks a stage | parameters | tensors |
//! |---|---|---|---|---|
//! | `resnet8` | 16, 32, 64 channels | 1 | 78,042 | 29 |
//! | `resnet18` | 64, 128, 256, 512 channels | 2 | 11,173,962 | 62 |
//!
//! They differ from ImageNet's in the stem, a 3 x 3 convolution of stride 1 without a pooling after it, and in
//! the ten classes. `resnet8` is the paper's CIFAR network (section 4.2, `6n + 2` layers) with n = 1, but for its
//! shortcuts, which are convolutions where the shape changes (option B).

use super::{Mode, Network, Parameter, convolution, linear, norm};
use crate::error::Error;
use tch::Tensor;

/// How deep and wide a residual network is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Channels of the stages; the first block of all but the first stage halves the image.
    stages: &'static [usize],
    /// Blocks of each stage.
    blocks: usize,
}

pub(super) const RESNET8: Shape = Shape {
    stages: &[16, 32, 64],
    blocks: 1,
};
pub(super) const RESNET18: Shape = Shape {
    stages: &[64, 128, 256, 512],
    blocks: 2,
};

pub(super) fn parameters(shape: Shape) -> Vec<Parameter> {
    let mut inputs = shape.stages[0];
    let mut list = vec![convolution("conv1", [inputs, 3], 3)];
    list.extend(norm("bn1", inputs));
    for (stage, &outputs) in shape.stages.iter().enumerate() {
        for block in 0..shape.blocks {
            let name = |part: &str| format!("layer{}.{block}.{part}", stage + 1);
            list.push(convolution(&name("conv1"), [outputs, inputs], 3));
            list.extend(norm(&name("bn1"), outputs));
            list.push(convolution(&name("conv2"), [outputs, outputs], 3));
            list.extend(norm(&name("bn2"), outputs));
            if inputs != outputs {
                list.push(convolution(&name("downsample.0"), [outputs, inputs], 1));
                list.extend(norm(&name("downsample.1"), outputs));
            }
            inputs = outputs;
        }
    }
    list.extend(linear("fc", [10, inputs]));
    list
}

/// `[n, 3, 32, 32]` to logits `[n, 10]`.
pub(super) fn forward(shape: Shape, network: &Network, input: &Tensor, mode: Mode) -> Result<Tensor, Error> {
    let mut walk = Walk {
        network,
        mode,
        parameter: 0,
        norm: 0,
    };
    let mut x = walk.convolve(input, 1)?.f_relu_()?;
    for stage in 0..shape.stages.len() {
        for block in 0..shape.blocks {
            x = walk.block(&x, stage > 0 && block == 0)?;
        }
    }
    let x = x.f_adaptive_avg_pool2d([1, 1])?.f_flatten(1, -1)?;
    let [weight, bias] = walk.take_two();
    Ok(x.f_linear(weight, Some(bias))?)
}

/// Goes through the parameters and norms in the order of [`parameters`].
struct Walk<'a> {
    network: &'a Network,
    mode: Mode,
    parameter: usize,
    norm: usize,
}

impl<'a> Walk<'a> {
    fn take(&mut self) -> &'a Tensor {
        self.parameter += 1;
        &self.network.parameters[self.parameter - 1]
    }

    fn take_two(&mut self) -> [&'a Tensor; 2] {
        [self.take(), self.take()]
    }

    /// A convolution that keeps the size (but for the stride), and its batch norm.
    fn convolve(&mut self, x: &Tensor, stride: i64) -> Result<Tensor, Error> {
        let weight = self.take();
        let padding = weight.size()[2] / 2;
        let x = x.f_conv2d(weight, None::<&Tensor>, [stride; 2], [padding; 2], [1, 1], 1)?;
        let [weight, bias] = self.take_two();
        self.norm += 1;
        self.network.norms[self.norm - 1].forward(&x, [weight, bias], self.mode)
    }

    fn block(&mut self, x: &Tensor, halve: bool) -> Result<Tensor, Error> {
        let stride = if halve { 2 } else { 1 };
        let out = self.convolve(x, stride)?.f_relu_()?;
        let mut out = self.convolve(&out, 1)?;
        if halve {
            out = out.f_add_(&self.convolve(x, 2)?)?;
        } else {
            out = out.f_add_(x)?;
        }
        Ok(out.f_relu_()?)
    }
}
