//! The parameter server: sockets, files and metrics around [`asgc_core::server::Server`].
//!
//! ```text
//! incoming -> service -> inbound --queue--> owner --> outbox -> stream
//! (sockets)   (gRPC)     (reassemble,       (the one that decides;   \
//!                         check)             one thread, no locks)    -> sink -> events.jsonl, metrics
//! ```
//!
//! | room | what lives there |
//! |---|---|
//! | [`app`] | putting the parts together: [`app::run`] |
//! | `incoming` | accepted sockets, counted to the byte |
//! | `service` | the gRPC methods |
//! | `inbound` | one session's messages, reassembled and checked |
//! | `outbox` | one session's answers: verdicts before snapshots |
//! | `owner` | the thread that owns the state machine |
//! | `sink` | where events go |
//! | `metrics` | the server's metrics, a fold over events |
//! | `model_file` | safetensors in and out |
//! | `generation` | the count of the server's lives |

mod admin;
pub mod app;
mod assembly;
mod crew;
mod generation;
mod inbound;
mod incoming;
mod metrics;
mod model_file;
mod outbox;
mod owner;
mod service;
mod sink;
mod train;
