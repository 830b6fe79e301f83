//! A worker's endless sequence of training batches.

use super::augment::{self, View};
use super::shard::{Order, worker_seed};
use super::{Batch, Cursor, Cutter, Images, Part, Shape, Shard, load};
use crate::error::Error;
use asgc_core::config::Dataset;
use asgc_core::ids::WorkerId;
use std::path::Path;
use tch::Device;

/// Which batches.
#[derive(Debug)]
pub(crate) struct Sampling<'a> {
    pub(crate) dataset: Dataset,
    pub(crate) root: &'a Path,
    pub(crate) batch_size: usize,
    pub(crate) seed: u64,
    pub(crate) worker: WorkerId,
    pub(crate) num_workers: u32,
}

/// Cuts one batch after another from a worker's shard.
#[derive(Debug)]
pub(crate) struct Sampler {
    images: Images,
    order: Order,
    cutter: Cutter,
    seed: u64,
    /// One view a sample of the batch, where the data set is augmented.
    views: Option<Vec<View>>,
}

impl Sampler {
    pub(crate) fn new(sampling: &Sampling<'_>, device: Device) -> Result<Self, Error> {
        let Sampling {
            dataset,
            root,
            batch_size,
            ..
        } = *sampling;
        if !(1..=1 << 20).contains(&batch_size) {
            let name = "workload.batch_size";
            return Err(Error::Setting {
                name,
                range: "1 to 1048576",
                value: batch_size,
            });
        }
        let shard = Shard::new(sampling.worker.0, sampling.num_workers);
        let images = load(dataset, root, Part::Train, shard)?;
        if images.len() == 0 {
            let advice = "take fewer workers or more data";
            let problem = format!("no training sample is left for worker {}", sampling.worker);
            return Err(Error::data(root, problem, advice));
        }
        let seed = worker_seed(sampling.seed, sampling.worker);
        Ok(Self {
            order: Order::new(images.len(), batch_size, seed),
            images,
            cutter: Cutter::new(Shape::of(dataset), device),
            seed,
            views: (dataset == Dataset::Cifar10).then(Vec::new),
        })
    }

    pub(crate) fn next_batch(&mut self) -> Result<Batch, Error> {
        let (begin, indices) = self.order.take();
        let views = self.views.as_mut().map(|views| {
            views.resize(indices.len(), View::IDENTITY);
            augment::draw(self.seed, begin, views);
            views.as_slice()
        });
        self.cutter.cut(&self.images, indices, views)
    }

    /// Samples in the shard.
    pub(crate) fn len(&self) -> usize {
        self.images.len()
    }

    pub(crate) fn cursor(&self) -> Cursor {
        self.order.cursor()
    }

    pub(crate) fn seek(&mut self, cursor: Cursor) {
        self.order.seek(cursor);
    }
}
