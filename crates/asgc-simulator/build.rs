//! Repeats the linker arguments that `asgc-nn/build.rs` worked out: cargo applies them package by package.

fn main() {
    // Absent where the simulator is built without libtorch. Cargo reruns this script when it changes.
    println!("cargo::rerun-if-env-changed=DEP_ASGC_NN_LINK_ARGS");
    println!("cargo::rerun-if-changed=build.rs");
    for argument in std::env::var("DEP_ASGC_NN_LINK_ARGS")
        .unwrap_or_default()
        .split_terminator('\t')
    {
        println!("cargo::rustc-link-arg={argument}");
    }
}
