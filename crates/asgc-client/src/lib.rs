//! A worker's session with the parameter server.
//!
//! The session moves parameters and gradients, keeps the residual, and survives broken connections. It
//! never owns a training loop, a data set or a loss:
//!
//! ```no_run
//! # async fn train(options: asgc_client::Options, layout: asgc_core::layout::Layout,
//! #     settings: asgc_core::worker::Settings) -> Result<(), asgc_client::Error> {
//! use asgc_client::{Pulled, Session};
//!
//! let mut session = Session::join(options, layout, settings).await?;
//! loop {
//!     match session.pull().await? {
//!         Pulled::Fresh | Pulled::Unchanged => {}
//!         Pulled::NeedParameters => {
//!             session.initialise(vec![0.0; session.layout().parameters()]).await?;
//!             continue;
//!         }
//!         Pulled::Stop(_) => break,
//!     }
//!     let mut gradient = vec![0.0; session.parameters().len()]; // yours
//!     session.push(&mut gradient, Default::default()).await?;
//! }
//! session.leave("done").await;
//! # Ok(()) }
//! ```
//!
//! [`Session::submit`], [`Session::request_pull`] and [`Session::next`] are the same in pieces: pushes travel and
//! parameters come in while the next gradient is computed elsewhere.
//!
//! | room | what lives there |
//! |---|---|
//! | [`Session`] | join, pull, push, report, leave |
//! | [`Wire`] | ready-made payloads, for measuring the wire |
//! | [`Admin`] | what operators ask a server and want of it |
//! | `session/drive` | what is under way, one turn after the other |
//! | `link` | one connection and its `Train` stream |
//! | `incoming` | what the server says, and when it was there |
//! | `link_meter` | how long the uplink takes |
//! | `upload` | a payload's way: asking first, delays, chunks, stopping early |
//! | `retry` | which errors are worth another try, and when |
//! | `throttle` | injected delays |

mod admin;
mod error;
mod incoming;
mod link;
mod link_meter;
mod retry;
mod session;
mod throttle;
mod upload;
mod wire;

pub use admin::Admin;
pub use error::Error;
pub use link::fetch_settings;
pub use session::{Happening, Options, Pulled, Session, Settled};
pub use throttle::Throttle;
pub use wire::Wire;
