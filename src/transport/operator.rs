//! The operator's calls, on the admin socket only.

use tonic::{Request, Response, Status};

use crate::proto::v1 as pb;
use crate::proto::v1::operator_service_server::OperatorService;

use super::calls::Calls;
use super::gate::Origin;
use super::status;

/// `OperatorService` over the calls.
#[derive(Clone, Debug)]
pub(super) struct Operator(pub(super) Calls);

/// Takes the message and who sent it out of a request that passed the gate.
fn opened<M>(mut request: Request<M>) -> (M, Origin) {
    let origin = request
        .extensions_mut()
        .remove::<Origin>()
        .expect("the gate says who asks, and no service is reached but through it");
    (request.into_inner(), origin)
}

#[tonic::async_trait]
impl OperatorService for Operator {
    async fn list_incidents(
        &self,
        request: Request<pb::ListIncidentsRequest>,
    ) -> Result<Response<pb::ListIncidentsResponse>, Status> {
        let (request, origin) = opened(request);
        let answer = self.0.list_incidents(request, &origin).await;
        answer
            .map(Response::new)
            .map_err(|fault| status::of(&fault))
    }
}
