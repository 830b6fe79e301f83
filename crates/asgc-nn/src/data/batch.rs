//! Cutting batches: gather, normalise, one copy into a tensor.

use super::augment::{View, write_plane};
use super::{Images, Shape};
use crate::error::Error;
use tch::{Device, Tensor};

/// A batch on the device: images and their classes.
#[derive(Debug)]
pub struct Batch {
    /// `f32`, `[n, channels, height, width]`, normalised.
    pub(crate) images: Tensor,
    /// `i64`, `[n]`, 0 to 9.
    pub(crate) labels: Tensor,
    samples: u32,
}

impl Batch {
    /// How many samples it holds.
    #[must_use]
    pub fn samples(&self) -> u32 {
        self.samples
    }
}

/// Cuts batches from images of one shape, with buffers that are made once.
#[derive(Debug)]
pub(crate) struct Cutter {
    shape: Shape,
    device: Device,
    /// The normalised value of each byte, by channel.
    tables: Vec<[f32; 256]>,
    pixels: Vec<f32>,
    labels: Vec<i64>,
}

impl Cutter {
    pub(crate) fn new(shape: Shape, device: Device) -> Self {
        let table = |&(mean, deviation): &(f32, f32)| {
            std::array::from_fn(|byte| (byte as f32 / 255.0 - mean) / deviation)
        };
        let tables = shape.channels.iter().map(table).collect();
        Self {
            shape,
            device,
            tables,
            pixels: Vec::new(),
            labels: Vec::new(),
        }
    }

    /// The images at `indices`, as they are or each through its view.
    pub(crate) fn cut(
        &mut self,
        images: &Images,
        indices: &[u32],
        views: Option<&[View]>,
    ) -> Result<Batch, Error> {
        self.labels.clear();
        self.labels
            .extend(indices.iter().map(|&i| i64::from(images.labels[i as usize])));
        // Every value is written below: what an earlier batch left needs no clearing.
        self.pixels.resize(indices.len() * self.shape.bytes(), 0.0);
        let area = self.shape.side * self.shape.side;
        for (n, out) in self.pixels.chunks_exact_mut(self.shape.bytes()).enumerate() {
            let image = images.image(indices[n] as usize);
            let planes = image
                .chunks_exact(area)
                .zip(out.chunks_exact_mut(area))
                .zip(&self.tables);
            for ((plane, out), table) in planes {
                match views {
                    Some(views) => write_plane(plane, self.shape.side, views[n], table, out),
                    None => out
                        .iter_mut()
                        .zip(plane)
                        .for_each(|(v, &byte)| *v = table[usize::from(byte)]),
                }
            }
        }
        self.tensors(indices.len())
    }

    fn tensors(&self, samples: usize) -> Result<Batch, Error> {
        let (channels, side) = (self.shape.channels.len() as i64, self.shape.side as i64);
        let images = Tensor::f_from_slice(&self.pixels)?.f_view([samples as i64, channels, side, side])?;
        let labels = Tensor::f_from_slice(&self.labels)?;
        Ok(Batch {
            images: images.f_to_device(self.device)?,
            labels: labels.f_to_device(self.device)?,
            samples: samples as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use asgc_core::config::Dataset;

    #[test]
    fn a_batch_holds_normalised_images_and_their_labels() {
        let shape = Shape::of(Dataset::Cifar10);
        let pixels = (0..3 * shape.bytes()).map(|i| (i % 251) as u8).collect();
        let images = Images {
            shape,
            pixels,
            labels: vec![4, 5, 6],
        };
        let mut cutter = Cutter::new(shape, Device::Cpu);
        let batch = cutter.cut(&images, &[2, 0], None).unwrap();
        assert_eq!((batch.samples(), batch.images.size()), (2, vec![2, 3, 32, 32]));
        assert_eq!(Vec::<i64>::try_from(&batch.labels).unwrap(), [6, 4]);

        let value = batch.images.double_value(&[0, 1, 3, 7]);
        let byte = images.image(2)[1024 + 3 * 32 + 7];
        assert!((value - (f64::from(byte) / 255.0 - 0.4822) / 0.2435).abs() < 1e-5);

        // The buffer is used again, for a batch that is smaller.
        let flipped = View {
            flip: true,
            ..View::IDENTITY
        };
        let again = cutter.cut(&images, &[2], Some(&[flipped])).unwrap();
        assert_eq!(again.images.double_value(&[0, 1, 3, 31 - 7]), value);
    }
}
