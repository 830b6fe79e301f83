//! The command line of operators and researchers.
fn main() {}
