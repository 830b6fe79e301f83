//! The wire: generated messages, and the one place where they become core types and back.
//!
//! A message from a peer is claims, not facts: [`convert`] checks every enum, range and size, and says in
//! words what is wrong. Nothing behind it sees a protobuf type.

pub mod convert;
mod floats;
pub mod framing;
pub mod limits;

pub use floats::{FloatsAsBytes, bytes_to_floats, floats_to_bytes};

/// The generated messages and services.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::uninlined_format_args,
    clippy::needless_pass_by_value,
    reason = "generated code; proto/asgc/v1/asgc.proto is its documentation"
)]
pub mod v1 {
    tonic::include_proto!("asgc.v1");
}

/// The compiled protocol, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The metadata key under which a status names the kind of a refusal, for programs.
pub const REFUSAL_KEY: &str = "asgc-refusal";

/// The version of the protocol that this crate speaks.
pub const PROTOCOL: u32 = 1;
