//! Compiles the protocol with protox, so that no protoc need be installed.

use prost::Message;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let descriptors = protox::compile([root.join("asgc/v1/asgc.proto")], [&root])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    // For gRPC reflection.
    std::fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        // Payloads and parameters stay in the buffer that they arrived in.
        .bytes(".")
        .compile_fds(descriptors)?;
    Ok(())
}
