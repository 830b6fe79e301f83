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
//! | [`event`] | the schema of `events.jsonl` |

pub mod codec;
pub mod config;
pub mod event;
pub mod ids;
pub mod layout;
