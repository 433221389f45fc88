//! The calls as gRPC.

use tonic::{Request, Response, Status};

use crate::engine::Fault;
use crate::proto::v1 as pb;
use crate::proto::v1::coordination_service_server::CoordinationService;

use super::calls::Calls;
use super::gate::Origin;
use super::status;

/// `CoordinationService` over the calls.
#[derive(Clone, Debug)]
pub(super) struct Grpc(pub(super) Calls);

/// Takes the message and who sent it out of a request that passed the gate.
pub(super) fn opened<M>(mut request: Request<M>) -> (M, Origin) {
    let origin = request
        .extensions_mut()
        .remove::<Origin>()
        .expect("the gate says who asks, and no service is reached but through it");
    (request.into_inner(), origin)
}

/// Puts an answer in gRPC's words.
pub(super) fn answered<M>(answer: Result<M, Fault>) -> Result<Response<M>, Status> {
    answer
        .map(Response::new)
        .map_err(|fault| status::of(&fault))
}

#[tonic::async_trait]
impl CoordinationService for Grpc {
    async fn reserve(
        &self,
        request: Request<pb::ReserveRequest>,
    ) -> Result<Response<pb::ReserveResponse>, Status> {
        let (request, origin) = opened(request);
        answered(self.0.reserve(request, &origin).await)
    }

    async fn transition(
        &self,
        request: Request<pb::TransitionRequest>,
    ) -> Result<Response<pb::TransitionResponse>, Status> {
        let (request, origin) = opened(request);
        answered(self.0.transition(request, &origin).await)
    }

    async fn fence(
        &self,
        request: Request<pb::FenceRequest>,
    ) -> Result<Response<pb::FenceResponse>, Status> {
        let (request, origin) = opened(request);
        answered(self.0.fence(request, &origin).await)
    }

    async fn renew(
        &self,
        request: Request<pb::RenewRequest>,
    ) -> Result<Response<pb::RenewResponse>, Status> {
        let (request, origin) = opened(request);
        answered(self.0.renew(request, &origin).await)
    }

    async fn release(
        &self,
        request: Request<pb::ReleaseRequest>,
    ) -> Result<Response<pb::ReleaseResponse>, Status> {
        let (request, origin) = opened(request);
        answered(self.0.release(request, &origin).await)
    }

    async fn lookup(
        &self,
        request: Request<pb::LookupRequest>,
    ) -> Result<Response<pb::LookupResponse>, Status> {
        let (request, origin) = opened(request);
        answered(self.0.lookup(request, &origin).await)
    }

    async fn inspect(
        &self,
        request: Request<pb::InspectRequest>,
    ) -> Result<Response<pb::InspectResponse>, Status> {
        let (request, origin) = opened(request);
        answered(self.0.inspect(request, &origin).await)
    }
}
