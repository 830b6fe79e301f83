//! Repeats the linker arguments that `asgc-nn/build.rs` worked out: cargo applies them package by package.

fn main() {
    // For `cargo metadata`: what other platforms need is not even downloaded.
    if let Ok(target) = std::env::var("TARGET") {
        println!("cargo:rustc-env=ASGC_TARGET={target}");
    }
    // Absent where the worker is built without libtorch. Cargo reruns this script when it changes.
    println!("cargo::rerun-if-env-changed=DEP_ASGC_NN_LINK_ARGS");
    println!("cargo::rerun-if-changed=build.rs");
    for argument in std::env::var("DEP_ASGC_NN_LINK_ARGS")
        .unwrap_or_default()
        .split_terminator('\t')
    {
        println!("cargo::rustc-link-arg={argument}");
    }
}
