//! Calls the services without a connection between.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use etcd_client::proto::{PbKvServer, PbLeaseServer, PbWatchServer};
use http::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower::{BoxError, Service};

use super::kv::{self, Kv};
use super::lease::{self, Lease};
use super::shared::Shared;
use super::watch::{self, Watch};

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

#[derive(Clone)]
pub(super) struct Dispatch {
    kv: PbKvServer<Kv>,
    lease: PbLeaseServer<Lease>,
    watch: PbWatchServer<Watch>,
}

impl Dispatch {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            kv: kv::service(shared),
            lease: lease::service(shared),
            watch: watch::service(shared),
        }
    }
}

impl Service<Request<Body>> for Dispatch {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answer {
        let service = request.uri().path().split('/').nth(1).unwrap_or_default();
        if service == <PbKvServer<Kv> as NamedService>::NAME {
            answer(&mut self.kv, request)
        } else if service == <PbLeaseServer<Lease> as NamedService>::NAME {
            answer(&mut self.lease, request)
        } else if service == <PbWatchServer<Watch> as NamedService>::NAME {
            answer(&mut self.watch, request)
        } else {
            let refusal = format!("unknown service {service}");
            Box::pin(std::future::ready(Ok(
                Status::unimplemented(refusal).into_http()
            )))
        }
    }
}

fn answer<S>(service: &mut S, request: Request<Body>) -> Answer
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    let answer = service.call(request);
    Box::pin(async move {
        match answer.await {
            Ok(response) => Ok(response),
            Err(never) => match never {},
        }
    })
}
