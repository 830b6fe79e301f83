//! Data sets as bytes, a worker's shard of them, and batches cut from it.
//!
//! Images are decoded once and stay `u8`; a trainer keeps its shard only. A batch is one gather through a
//! table of 256 normalised values a channel into one reused buffer, and one copy into a tensor.

mod augment;
mod batch;
mod cifar;
mod idx;
mod procedural;
mod sampler;
mod shard;

pub use batch::Batch;
pub(crate) use batch::Cutter;
pub(crate) use sampler::{Sampler, Sampling};
pub use shard::Cursor;
pub(crate) use shard::Shard;

use crate::error::Error;
use asgc_core::config::{Dataset, Model};
use std::path::Path;

/// Classes of every data set here.
const CLASSES: u8 = 10;

/// Training or test images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Train,
    Test,
}

/// What images of a data set look like, and how they are normalised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shape {
    /// Height and width.
    side: usize,
    /// Mean and standard deviation by channel, of values in `[0, 1]`.
    channels: &'static [(f32, f32)],
}

impl Shape {
    pub(crate) fn of(dataset: Dataset) -> Self {
        match dataset {
            Dataset::FashionMnist => Self {
                side: 28,
                channels: &[(0.2860, 0.3530)],
            },
            // Nothing of the synthetic set gets past `check_fits`.
            Dataset::Procedural | Dataset::Synthetic => Self {
                side: 28,
                channels: &[procedural::NORMALISATION],
            },
            Dataset::Cifar10 => Self {
                side: 32,
                channels: &[(0.4914, 0.2470), (0.4822, 0.2435), (0.4465, 0.2616)],
            },
        }
    }

    /// Bytes of an image: channel after channel, row after row.
    fn bytes(self) -> usize {
        self.channels.len() * self.side * self.side
    }
}

/// Decoded images and their labels.
#[derive(Debug, PartialEq)]
pub(crate) struct Images {
    shape: Shape,
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

impl Images {
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    fn image(&self, i: usize) -> &[u8] {
        &self.pixels[i * self.shape.bytes()..][..self.shape.bytes()]
    }
}

/// Reads the images of `part` that `shard` holds, in the data set's order.
pub(crate) fn load(dataset: Dataset, root: &Path, part: Part, shard: Shard) -> Result<Images, Error> {
    match dataset {
        Dataset::FashionMnist => idx::fashion_mnist(root, part, shard),
        Dataset::Cifar10 => cifar::cifar10(root, part, shard),
        Dataset::Procedural => Ok(procedural::draw(part, shard)),
        Dataset::Synthetic => Err(Error::data(
            root,
            "the synthetic data set has no images",
            "choose another workload.dataset",
        )),
    }
}

/// Whether the model takes the data set's images.
pub(crate) fn check_fits(model: Model, dataset: Dataset) -> Result<(), Error> {
    match (model, dataset) {
        (Model::SmallCnn | Model::ToyCnn, Dataset::FashionMnist | Dataset::Procedural)
        | (Model::Resnet8 | Model::Resnet18, Dataset::Cifar10) => Ok(()),
        (Model::Quadratic | Model::Logistic, _) => Err(Error::Synthetic(model)),
        _ => Err(Error::Mismatch { model, dataset }),
    }
}
