//! Models, data sets, gradients and evaluation on libtorch.
