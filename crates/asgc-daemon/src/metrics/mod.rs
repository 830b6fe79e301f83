//! Metrics: a registry without globals, labels that stay few, and the HTTP endpoint.

mod endpoint;
mod labels;
mod registry;
#[cfg(test)]
mod tests;

pub use endpoint::{BindError, Endpoint, Health};
pub use labels::{OTHER, WorkerLabels};
pub use prometheus;
pub use registry::Registry;
