//! What can go wrong with a session.

use asgc_core::codec::NonFinite;
use asgc_proto::REFUSAL_KEY;
use tonic::{Code, Status};

/// Why a session cannot go on, or a push could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is none.
    #[error("{address} is no address of a server: {why}; write http://HOST:PORT")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        why: String,
    },
    /// The server could not be reached, or not any more, for as long as was to be tried.
    #[error("no server at {address} for {seconds:.0} s (worker.give_up_after_s): {last}")]
    GaveUp {
        /// The address.
        address: String,
        /// How long it was tried.
        seconds: f64,
        /// The last error.
        last: String,
    },
    /// Nobody answers, or the answer was cut off.
    #[error(
        "no answer from {server}: {why}; is the server running, and is this its address (endpoints.json in the run's folder)?"
    )]
    Unreachable {
        /// The address.
        server: String,
        /// The error.
        why: String,
    },
    /// The server refused, and would refuse again.
    #[error("the server refused: {}", .0.message())]
    Refused(Box<Status>),
    /// The run is over.
    #[error("the run is over")]
    Over,
    /// A gradient that may not be sent. The session goes on; the residual is as it was.
    #[error(transparent)]
    Unfit(#[from] NonFinite),
    /// The server sent what the protocol does not allow.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
}

/// What a status means for the session.
#[derive(Debug)]
pub(crate) enum Meaning {
    /// The connection is gone; another may work.
    Broken(String),
    /// It is no use.
    Fatal(Error),
}

pub(crate) fn meaning(status: Status) -> Meaning {
    let refusal = status
        .metadata()
        .get(REFUSAL_KEY)
        .and_then(|value| value.to_str().ok());
    if refusal == Some("over") {
        return Meaning::Fatal(Error::Over);
    }
    match status.code() {
        Code::InvalidArgument
        | Code::FailedPrecondition
        | Code::PermissionDenied
        | Code::Unauthenticated
        | Code::AlreadyExists
        | Code::OutOfRange
        | Code::Unimplemented => Meaning::Fatal(Error::Refused(Box::new(status))),
        _ => Meaning::Broken(format!("{} ({:?})", status.message(), status.code())),
    }
}
