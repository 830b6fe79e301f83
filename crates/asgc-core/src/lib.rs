//! The core of asgc: what a parameter server and its workers decide, and nothing about how they talk.
//!
//! Everything here is deterministic and sans-IO. There is no clock, socket, file, thread or ambient
//! randomness in this crate: time, seeds and messages are passed in; actions and events come out. The
//! daemons, the simulator and the replay drive the very same code.
//!
//! | room | what lives there |
//! |---|---|
//! | [`ids`] | newtypes: versions, generations, workers, pushes |
//! | [`layout`] | which tensors a model has, and the fingerprint of that list |
//! | [`config`] | the one configuration schema of all programs |
//! | [`codec`] | identity, Top-K and quantize, with exact byte accounting |
//! | [`feedback`] | error feedback: the residual and its rollback |
//! | [`staleness`] | the bounded-staleness policy |
//! | [`controller`] | how both adapt while the run goes on |
//! | [`cost`] | how long a step takes, and what compression changes about it |
//! | [`optimizer`] | the server's update and its learning-rate schedule |
//! | [`parameters`] | the parameters as copy-on-write chunks |
//! | [`downlink`] | what a worker is sent instead of all parameters |
//! | [`push`] | a push, its header and its verdict |
//! | [`initial`] | first parameters that both sides draw from the seed |
//! | [`server`] | the server's state machine |
//! | [`worker`] | the worker's state machine |
//! | [`task`] | the seam to whoever computes gradients |
//! | [`local_steps`] | SGD at the worker between two pushes |
//! | [`event`] | the schema of `events.jsonl` |

pub mod codec;
pub mod config;
pub mod controller;
pub mod cost;
pub mod crew;
pub mod downlink;
pub mod event;
pub mod feedback;
pub mod ids;
pub mod initial;
pub mod layout;
pub mod local_steps;
pub mod momentum;
pub mod optimizer;
pub mod parameters;
pub mod push;
pub mod server;
pub mod staleness;
pub mod task;
pub mod worker;
