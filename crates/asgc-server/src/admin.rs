//! What operators ask and want. Until there are roles, it is answered on loopback only.

use crate::incoming::Connection;
use crate::owner::Command;
use asgc_proto::convert;
use asgc_proto::v1::{self, admin_server};
use tokio::sync::{mpsc, oneshot};
use tonic::{Request, Response, Status};

/// The service, before the owner's queue.
pub(crate) struct Admin {
    pub(crate) queue: mpsc::Sender<Command>,
}

#[tonic::async_trait]
impl admin_server::Admin for Admin {
    async fn get_controls(
        &self,
        request: Request<v1::GetControlsRequest>,
    ) -> Result<Response<v1::GetControlsResponse>, Status> {
        check_peer(&request)?;
        let (reply, report) = oneshot::channel();
        self.ask(Command::Controls { reply }).await?;
        let report = report.await.map_err(|_| over())?;
        let report_json = json(&report)?;
        Ok(Response::new(v1::GetControlsResponse { report_json }))
    }

    async fn set_controls(
        &self,
        request: Request<v1::SetControlsRequest>,
    ) -> Result<Response<v1::SetControlsResponse>, Status> {
        check_peer(&request)?;
        let operator = convert::operator(request.into_inner());
        let operator = Box::new(operator.map_err(|error| Status::invalid_argument(error.to_string()))?);
        let (reply, outcome) = oneshot::channel();
        self.ask(Command::SetControls { operator, reply }).await?;
        let control = outcome
            .await
            .map_err(|_| over())?
            .map_err(Status::invalid_argument)?;
        let control_json = json(&control)?;
        Ok(Response::new(v1::SetControlsResponse { control_json }))
    }
}

impl Admin {
    async fn ask(&self, command: Command) -> Result<(), Status> {
        self.queue.send(command).await.map_err(|_| over())
    }
}

fn check_peer<T>(request: &Request<T>) -> Result<(), Status> {
    let connection = request.extensions().get::<Connection>();
    let peer = connection.and_then(|connection| connection.peer);
    if peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback()) {
        return Ok(());
    }
    let why = "operators are answered on loopback only: run the command on the server's machine, against 127.0.0.1 \
               (or through an SSH tunnel)";
    Err(Status::permission_denied(why))
}

fn json<T: serde::Serialize>(value: &T) -> Result<String, Status> {
    serde_json::to_string(value).map_err(|error| Status::internal(error.to_string()))
}

fn over() -> Status {
    Status::unavailable("the run is over")
}
