//! A model's tensors on a device.

use super::{parameters, resnet, small_cnn};
use crate::error::Error;
use asgc_core::config::Model;
use asgc_core::initial::Init;
use tch::{Device, Kind, Tensor, no_grad};

/// PyTorch's default weight of a batch in the running statistics.
pub(crate) const MOMENTUM: f64 = 0.1;

/// How batch norm works.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Mode {
    /// By the batch's own statistics, which enter the running ones with this weight.
    Train(f64),
    /// By the running statistics.
    Evaluate,
}

/// The running statistics of one batch norm.
#[derive(Debug)]
pub(crate) struct Norm {
    /// The layer, without `.running_mean`.
    pub(crate) name: String,
    /// `[channels]`.
    pub(crate) mean: Tensor,
    /// `[channels]`.
    pub(crate) variance: Tensor,
}

impl Norm {
    pub(super) fn forward(
        &self,
        x: &Tensor,
        [weight, bias]: [&Tensor; 2],
        mode: Mode,
    ) -> Result<Tensor, Error> {
        let (train, momentum) = match mode {
            Mode::Train(momentum) => (true, momentum),
            Mode::Evaluate => (false, MOMENTUM),
        };
        let (mean, variance) = (Some(&self.mean), Some(&self.variance));
        Ok(x.f_batch_norm(
            Some(weight),
            Some(bias),
            mean,
            variance,
            train,
            momentum,
            1e-5,
            true,
        )?)
    }
}

/// A model's parameters and batch-norm statistics.
#[derive(Debug)]
pub(crate) struct Network {
    model: Model,
    /// All parameters in layout order; `parameters` are windows into it, so setting them is one copy.
    flat: Tensor,
    /// Leaves that require gradients.
    pub(super) parameters: Vec<Tensor>,
    /// In the order of the forward pass.
    pub(crate) norms: Vec<Norm>,
}

impl Network {
    /// A network of zeros: parameters come with [`Network::set_parameters`].
    pub(crate) fn new(model: Model, device: Device) -> Result<Self, Error> {
        let list = parameters(model)?;
        let total: usize = list.iter().map(|p| p.shape.iter().product::<usize>()).sum();
        let flat = Tensor::f_zeros([total as i64], (Kind::Float, device))?;
        let mut parameters = Vec::with_capacity(list.len());
        let mut norms = Vec::new();
        let mut start = 0;
        for parameter in list {
            let shape: Vec<i64> = parameter.shape.iter().map(|&d| d as i64).collect();
            let len = shape.iter().product();
            let window = flat.f_narrow(0, start, len)?.f_view(&shape[..])?;
            parameters.push(window.f_detach()?.f_set_requires_grad(true)?);
            start += len;
            if parameter.init == Init::Constant(1.0) {
                norms.push(Norm {
                    name: parameter.name.trim_end_matches(".weight").to_owned(),
                    mean: Tensor::f_zeros(&shape[..], (Kind::Float, device))?,
                    variance: Tensor::f_ones(&shape[..], (Kind::Float, device))?,
                });
            }
        }
        Ok(Self {
            model,
            flat,
            parameters,
            norms,
        })
    }

    /// Entries of all parameters together.
    pub(crate) fn len(&self) -> usize {
        self.flat.numel()
    }

    /// Copies flat parameters into the leaves.
    pub(crate) fn set_parameters(&mut self, flat: &[f32]) -> Result<(), Error> {
        if flat.len() != self.len() {
            return Err(Error::Length {
                what: "parameters",
                expected: self.len(),
                actual: flat.len(),
            });
        }
        let source = Tensor::f_from_slice(flat)?;
        no_grad(|| self.flat.f_copy_(&source))?;
        Ok(())
    }

    /// Puts the batch-norm statistics back to mean 0 and variance 1.
    pub(crate) fn reset_norms(&mut self) -> Result<(), Error> {
        for norm in &mut self.norms {
            let _ = norm.mean.f_zero_()?;
            let _ = norm.variance.f_fill_(1.0)?;
        }
        Ok(())
    }

    /// Images `[n, channels, height, width]` to logits `[n, 10]`.
    pub(crate) fn forward(&self, images: &Tensor, mode: Mode) -> Result<Tensor, Error> {
        match self.model {
            Model::SmallCnn => small_cnn::forward(small_cnn::SMALL, self, images),
            Model::ToyCnn => small_cnn::forward(small_cnn::TOY, self, images),
            Model::Resnet8 => resnet::forward(resnet::RESNET8, self, images, mode),
            Model::Resnet18 => resnet::forward(resnet::RESNET18, self, images, mode),
            Model::Quadratic | Model::Logistic => Err(Error::Synthetic(self.model)),
        }
    }

    /// The gradient of `loss` in the parameters, flat in layout order, into `gradient`.
    ///
    /// Gradients are asked for instead of accumulated in the leaves: nothing has to be zeroed before.
    pub(crate) fn backward(&self, loss: &Tensor, gradient: &mut [f32]) -> Result<(), Error> {
        if gradient.len() != self.len() {
            return Err(Error::Length {
                what: "gradient",
                expected: self.len(),
                actual: gradient.len(),
            });
        }
        let parts = Tensor::f_run_backward(&[loss], &self.parameters, false, false)?;
        let parts = parts
            .iter()
            .map(|part| part.f_flatten(0, -1))
            .collect::<Result<Vec<_>, _>>()?;
        // One copy across the bus instead of one a tensor, where the device has one.
        Tensor::f_cat(&parts, 0)?.f_copy_data(gradient, self.len())?;
        Ok(())
    }
}
