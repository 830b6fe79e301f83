//! The `Train` stream, past tonic's codec: data goes from the parameters to the socket, and from the socket to the decoder,
//! without a copy. The other calls are tonic's.

use crate::incoming::Connection;
use crate::service::Service;
use asgc_proto::framing::{Read, Side, Written};
use asgc_proto::v1::parameter_server_server::ParameterServerServer;
use std::convert::Infallible;
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service as HttpService};
use tonic::server::NamedService;

const TRAIN: &str = "/asgc.v1.ParameterServer/Train";

/// The parameter server as an HTTP service.
#[derive(Clone)]
pub(crate) struct Direct {
    service: Service,
    others: ParameterServerServer<Service>,
}

impl Direct {
    pub(crate) fn new(service: Service, others: ParameterServerServer<Service>) -> Self {
        Self { service, others }
    }
}

impl NamedService for Direct {
    const NAME: &'static str = <ParameterServerServer<Service> as NamedService>::NAME;
}

impl HttpService<http::Request<Body>> for Direct {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if request.uri().path() != TRAIN {
            return self.others.call(request);
        }
        let service = self.service.clone();
        Box::pin(async move { Ok(train(service, request).await.unwrap_or_else(Status::into_http)) })
    }
}

async fn train(service: Service, request: http::Request<Body>) -> Result<http::Response<Body>, Status> {
    let connection = request.extensions().get::<Connection>().cloned();
    let messages = Read::new(request.into_body());
    let outbox = service.open(messages, connection).await?;
    let body = Body::new(Written::new(Side::Server, outbox.stream()));
    let mut response = http::Response::new(body);
    let grpc = http::HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(http::header::CONTENT_TYPE, grpc);
    Ok(response)
}
