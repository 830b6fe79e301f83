//! What is trained: a network of `asgc-nn`, or an objective of `asgc-lab`.

use asgc_core::config::Config;
use asgc_core::task::{BoxError, Task};
use asgc_lab::objective;

pub(crate) fn task(config: &Config) -> Result<Box<dyn Task>, BoxError> {
    match objective::task(config) {
        Some(task) => Ok(task),
        None => network(config),
    }
}

#[cfg(feature = "torch")]
fn network(config: &Config) -> Result<Box<dyn Task>, BoxError> {
    let mut config = config.clone();
    // Sums over several threads depend on how many there are. Cores are used by computing several gradients at once.
    config.worker.threads = 1;
    Ok(Box::new(asgc_nn::Torch::new(&config)))
}

#[cfg(not(feature = "torch"))]
fn network(config: &Config) -> Result<Box<dyn Task>, BoxError> {
    let model = config.workload.model.as_str();
    Err(format!(
        "workload.model = \"{model}\" needs libtorch, and this program was built without its feature `torch`"
    )
    .into())
}
