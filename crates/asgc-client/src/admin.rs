//! What operators ask a server and want of it.

use crate::Error;
use crate::error::{Meaning, meaning};
use crate::link;
use asgc_core::controller::report::Report;
use asgc_core::event::{Control, Operator};
use asgc_proto::v1::admin_client::AdminClient;
use asgc_proto::{convert, v1};
use std::time::Duration;
use tonic::transport::Channel;

/// An operator waits no longer than this for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A report of thousands of workers is some megabytes.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// An operator's connection.
#[derive(Debug)]
pub struct Admin {
    client: AdminClient<Channel>,
    server: String,
}

impl Admin {
    /// Connects to `http://HOST:PORT`; one try.
    ///
    /// # Errors
    /// Says what is wrong with the address, or that nobody answers there.
    pub async fn connect(server: &str) -> Result<Self, Error> {
        let channel = link::channel(server)
            .await
            .map_err(|meaning| failed(server, meaning))?;
        Ok(Self {
            client: AdminClient::new(channel).max_decoding_message_size(MAX_ANSWER_BYTES),
            server: server.to_owned(),
        })
    }

    /// The controls in force, and the last decisions.
    ///
    /// # Errors
    /// When the server does not answer, or refuses.
    pub async fn controls(&mut self) -> Result<Report, Error> {
        let mut request = tonic::Request::new(v1::GetControlsRequest {});
        request.set_timeout(PATIENCE);
        let answer = self.client.get_controls(request).await;
        let answer = answer.map_err(|status| failed(&self.server, meaning(status)))?;
        parsed(&answer.into_inner().report_json)
    }

    /// Changes the controls; returns what the server logged.
    ///
    /// # Errors
    /// When the server does not answer, or says why it cannot be.
    pub async fn set_controls(&mut self, operator: &Operator) -> Result<Control, Error> {
        let mut request = tonic::Request::new(convert::operator_message(operator));
        request.set_timeout(PATIENCE);
        let answer = self.client.set_controls(request).await;
        let answer = answer.map_err(|status| failed(&self.server, meaning(status)))?;
        parsed(&answer.into_inner().control_json)
    }
}

fn failed(server: &str, meaning: Meaning) -> Error {
    match meaning {
        Meaning::Fatal(error) => error,
        Meaning::Broken(why) => Error::Unreachable {
            server: server.to_owned(),
            why,
        },
    }
}

fn parsed<T: serde::de::DeserializeOwned>(json: &str) -> Result<T, Error> {
    serde_json::from_str(json)
        .map_err(|error| Error::Protocol(format!("an answer of another version of the server: {error}")))
}
