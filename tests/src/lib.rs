//! Helpers shared by the tests across crates: real servers and workers as processes, and clients that behave
//! or misbehave.
//!
//! | room | what lives there |
//! |---|---|
//! | [`programs`] | where the programs under test are |
//! | [`process`] | one of them: its log, its end |
//! | [`server`] | `asgc-server` on a free port and a folder of its own |
//! | [`worker`] | `asgc-test-worker`, the worker daemon on arithmetic instead of libtorch |
//! | [`task`] | that arithmetic |
//! | [`honest`] | a training loop on the client library, in the test's own process |
//! | [`raw`] | the bare protocol, for peers that misbehave |
//! | [`relay`] | a TCP relay that cuts and holds connections |
//! | [`truth`] | whether an event log is true in itself |
//! | [`scrape`] | `/metrics`, read strictly |
//! | [`wait`] | waiting for conditions |
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests: a panic is how a test fails"
)]

pub mod honest;
pub mod process;
pub mod programs;
pub mod raw;
pub mod relay;
pub mod scrape;
pub mod server;
pub mod task;
pub mod truth;
pub mod wait;
pub mod worker;

pub use honest::Honest;
pub use process::Process;
pub use server::TestServer;
pub use task::Quadratic;
pub use worker::TestWorker;
