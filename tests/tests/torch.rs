//! Tests of the real worker on libtorch.
