//! Where the programs under test are: beside the tests, in the same profile's folder.

use std::path::PathBuf;

/// The program `name` of this build.
///
/// # Panics
/// When it was not built; says how to.
#[must_use]
pub fn find(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    // target/debug/deps/protocol-0123456789abcdef: the profile's folder is one or two levels up.
    let folders = test.ancestors().skip(1).take(2);
    let program = folders
        .map(|folder| folder.join(name))
        .find(|path| path.is_file());
    program.unwrap_or_else(|| {
        panic!(
            "{name} is not beside {}: run `make test`, or build the programs first with `cargo build -p {}`",
            test.display(),
            if name == "asgc-test-worker" {
                "asgc-tests"
            } else {
                name
            }
        )
    })
}

/// The root of the repository.
#[must_use]
pub fn repository() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    root.canonicalize().unwrap()
}
