//! Tells the linker where libtorch lies when a program starts, and to keep its CUDA half.
//!
//! Cargo applies `rustc-link-arg` only to this package's own tests. The same arguments go out as metadata
//! (`DEP_ASGC_NN_LINK_ARGS`), for a dependent's build script to repeat: see `asgc-worker/build.rs`.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-env-changed=LIBTORCH");
    let Some(libtorch) = std::env::var_os("LIBTORCH") else {
        // torch-sys then looks for a libtorch of its own, and says so when there is none.
        return;
    };
    let libtorch = Path::new(&libtorch);
    // Written anew by `scripts/libtorch` whenever it changes what .libtorch is.
    println!(
        "cargo::rerun-if-changed={}",
        libtorch.join("build-version").display()
    );

    let arguments = link_arguments(&libtorch.join("lib"));
    for argument in &arguments {
        println!("cargo::rustc-link-arg={argument}");
    }
    println!("cargo::metadata=LINK_ARGS={}", arguments.join("\t"));
}

fn link_arguments(lib: &Path) -> Vec<String> {
    let mut arguments = vec![
        format!("-Wl,-rpath,{}", lib.display()),
        // Where programs are installed as PREFIX/bin, and libtorch's libraries as PREFIX/lib/libtorch.
        "-Wl,-rpath,$ORIGIN/../lib/libtorch".to_owned(),
    ];
    if lib.join("libtorch_cuda.so").exists() {
        // Nothing refers to torch_cuda by name, it registers itself when loaded: without this the linker
        // drops it and CUDA is reported missing.
        let keep = [
            "-Wl,--push-state,--no-as-needed",
            "-ltorch_cuda",
            "-Wl,--pop-state",
        ];
        arguments.push(format!("-L{}", lib.display()));
        arguments.extend(keep.map(str::to_owned));
    }
    arguments
}
