//! The operator's calls, on the admin socket only.

use tonic::{Request, Response, Status};

use crate::proto::v1 as pb;
use crate::proto::v1::operator_service_server::OperatorService;

use super::calls::Calls;
use super::grpc::{answered, opened};

/// `OperatorService` over the calls.
#[derive(Clone, Debug)]
pub(super) struct Operator(pub(super) Calls);

#[tonic::async_trait]
impl OperatorService for Operator {
    async fn list_incidents(
        &self,
        request: Request<pb::ListIncidentsRequest>,
    ) -> Result<Response<pb::ListIncidentsResponse>, Status> {
        let (request, origin) = opened(request);
        answered(self.0.list_incidents(request, &origin).await)
    }

    async fn resolve_operation(
        &self,
        request: Request<pb::ResolveOperationRequest>,
    ) -> Result<Response<pb::ResolveOperationResponse>, Status> {
        let (request, origin) = opened(request);
        answered(self.0.resolve_operation(request, &origin).await)
    }
}
