//! The parameters that a simulated worker holds: as chunks that it shares with the server until a delta changes them.

use asgc_core::downlink::Change;
use asgc_core::ids::{Generation, Version};
use asgc_core::parameters::{Chunk, Parameters};

/// A version and its parameters; nothing before the first pull.
#[derive(Debug, Default)]
pub(super) struct Held(Option<((Generation, Version), Parameters)>);

impl Held {
    /// Version 0, if it can be drawn.
    pub(super) fn drawn(generation: Generation, initial: Option<Vec<Chunk>>) -> Self {
        Self(initial.map(|chunks| ((generation, Version(0)), Parameters::of_chunks(chunks))))
    }

    pub(super) fn at(&self) -> Option<(Generation, Version)> {
        self.0.as_ref().map(|(at, _)| *at)
    }

    pub(super) fn chunks(&self) -> Vec<Chunk> {
        self.0
            .as_ref()
            .map_or_else(Vec::new, |(_, parameters)| parameters.snapshot())
    }

    pub(super) fn take(&mut self, at: (Generation, Version), chunks: Vec<Chunk>) {
        self.0 = Some((at, Parameters::of_chunks(chunks)));
    }

    /// Goes on to `at`; without parameters there is nothing to go on from.
    pub(super) fn advance(&mut self, at: (Generation, Version), changes: &[Change]) {
        if let Some((held, parameters)) = &mut self.0 {
            *held = at;
            changes.iter().for_each(|change| change.make(parameters));
        }
    }
}
