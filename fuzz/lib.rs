//! What the fuzz targets share.

use asgc_core::codec::{Form, Scope, Values};
use asgc_core::layout::{Layout, TensorSpec};
use std::sync::Arc;

/// Small tensors of awkward lengths: none, one, and beside a group of 128.
pub fn layout() -> Arc<Layout> {
    let specs = [("a", 1), ("b", 0), ("c", 127), ("d", 129), ("e", 40)];
    let spec = |(name, len): (&str, usize)| TensorSpec {
        name: name.into(),
        shape: vec![len],
    };
    Arc::new(Layout::new(specs.map(spec).to_vec()).expect("a sound layout"))
}

/// A form out of a byte, be it one that goes with a codec or not.
pub fn form(byte: u8) -> Form {
    Form {
        values: [Values::F32, Values::Bf16, Values::Fp16, Values::Int8][usize::from(byte & 3)],
        packed: byte & 4 != 0,
        scope: if byte & 8 != 0 { Scope::Model } else { Scope::Tensor },
    }
}
