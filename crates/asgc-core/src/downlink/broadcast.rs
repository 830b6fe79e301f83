//! The view that all trainers share, and what it lacks.
//!
//! After `interval` updates the server broadcasts the entries in which its parameters and the view differ most, and takes
//! from the difference what a decoder will see: error feedback, as workers have it, with the roles exchanged (the server's
//! half of DoubleSqueeze, Tang et al., ICML 2019, section 3). Only the difference is kept, as the view is the parameters
//! less that; so two trainers that came at different times hold the same view to the rounding of additions.

use super::{History, Record, Step};
use crate::codec::{Codec, Encoder};
use crate::config::Downlink;
use crate::ids::{Density, Incarnation, OutOfRange, Version};
use crate::layout::Layout;
use crate::parameters::{Chunk, Parameters};
use std::sync::Arc;

/// The difference between parameters and view, and the log of broadcasts.
#[derive(Debug)]
pub(crate) struct Broadcast {
    encoder: Encoder,
    density: Density,
    interval: u64,
    /// Parameters less view, flat.
    pending: Vec<f32>,
    log: History,
    /// The version of the view.
    at: Version,
}

impl Broadcast {
    /// A view that is equal to the parameters of `version`; its log keeps `most` bytes.
    ///
    /// # Errors
    /// When `downlink.rho` is out of range.
    pub(crate) fn new(
        settings: &Downlink,
        layout: Arc<Layout>,
        (version, most): (Version, u64),
    ) -> Result<Self, OutOfRange> {
        let pending = vec![0.0; layout.parameters()];
        Ok(Self {
            encoder: Encoder::new(layout, 0).with_form(settings.form()),
            density: settings.density()?,
            interval: settings.interval,
            pending,
            log: History::new(version, most),
            at: version,
        })
    }

    /// What updates add their steps to, beside the parameters.
    pub(crate) fn pending_mut(&mut self) -> &mut [f32] {
        &mut self.pending
    }

    /// The version of the view.
    pub(crate) fn at(&self) -> Version {
        self.at
    }

    /// The parameters moved to `version`, and the difference with them: broadcasts when it is time.
    pub(crate) fn moved(&mut self, version: Version) {
        if version.0 - self.at.0 < self.interval {
            return;
        }
        self.at = version;
        let codec = Codec::TopK(self.density);
        match self.encoder.encode_in_place(&mut self.pending, None, codec, 0) {
            Ok(encoded) => self.log.push(Step {
                version,
                factor: 1.0,
                author: None,
                payload: encoded.payload,
            }),
            // What exceeds all floats cannot be sent as a difference: all begin again from the parameters.
            Err(_) => {
                self.pending.fill(0.0);
                self.log.begin_anew(version);
            }
        }
    }

    /// The broadcasts since `base`; `None` where they are not known any more.
    pub(crate) fn since(&self, base: Version) -> Option<Vec<Record>> {
        self.log.since(base, Incarnation(0))
    }

    /// The view in chunks as those of `parameters`.
    pub(crate) fn view(&self, parameters: &Parameters) -> Vec<Chunk> {
        let mut from = 0;
        let less = |chunk: &Chunk| {
            let pending = &self.pending[from..from + chunk.len()];
            from += chunk.len();
            chunk
                .iter()
                .zip(pending)
                .map(|(theta, left)| theta - left)
                .collect()
        };
        parameters.snapshot().iter().map(less).collect()
    }
}
