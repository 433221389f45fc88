//! The operator's calls, on the admin socket only.

use bytes::Bytes;
use prost_reflect::DynamicMessage;
use tonic::{Request, Response, Status};

use crate::engine::Fault;
use crate::proto::v1 as pb;
use crate::proto::v1::operator_service_server::OperatorService;

use super::calls::Calls;
use super::gate::Origin;
use super::grpc::unreadable;
use super::json::operator_input;
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

/// Whether this is a message of the call. The library would take one that is not for a mistake of its own (INTERNAL).
pub(super) fn sound(method: &str, message: &Bytes) -> Result<(), Status> {
    // The library says that there is no such call.
    let Some(input) = operator_input(method) else {
        return Ok(());
    };
    let read = DynamicMessage::decode(input, message.clone());
    read.map(drop).map_err(|error| unreadable(&error))
}

fn answered<M>(answer: Result<M, Fault>) -> Result<Response<M>, Status> {
    answer
        .map(Response::new)
        .map_err(|fault| status::of(&fault))
}

#[tonic::async_trait]
impl OperatorService for Operator {
    async fn list_incidents(
        &self,
        request: Request<pb::ListIncidentsRequest>,
    ) -> Result<Response<pb::ListIncidentsResponse>, Status> {
        let (request, origin) = opened(request);
        answered(self.0.list_incidents(request, &origin).await)
    }

    async fn get_incident(
        &self,
        request: Request<pb::GetIncidentRequest>,
    ) -> Result<Response<pb::GetIncidentResponse>, Status> {
        let (request, origin) = opened(request);
        answered(self.0.get_incident(request, &origin).await)
    }

    async fn close_incident(
        &self,
        request: Request<pb::CloseIncidentRequest>,
    ) -> Result<Response<pb::CloseIncidentResponse>, Status> {
        let (request, origin) = opened(request);
        answered(self.0.close_incident(request, &origin).await)
    }

    async fn get_counts(
        &self,
        _: Request<pb::GetCountsRequest>,
    ) -> Result<Response<pb::GetCountsResponse>, Status> {
        answered(self.0.get_counts())
    }

    async fn apply_machine(
        &self,
        request: Request<pb::ApplyMachineRequest>,
    ) -> Result<Response<pb::ApplyMachineResponse>, Status> {
        let (request, origin) = opened(request);
        answered(self.0.apply_machine(request, &origin).await)
    }

    async fn list_machines(
        &self,
        request: Request<pb::ListMachinesRequest>,
    ) -> Result<Response<pb::ListMachinesResponse>, Status> {
        let (request, origin) = opened(request);
        answered(self.0.list_machines(request, &origin).await)
    }

    async fn get_machine(
        &self,
        request: Request<pb::GetMachineRequest>,
    ) -> Result<Response<pb::GetMachineResponse>, Status> {
        let (request, origin) = opened(request);
        answered(self.0.get_machine(request, &origin).await)
    }

    async fn list_machine_versions(
        &self,
        request: Request<pb::ListMachineVersionsRequest>,
    ) -> Result<Response<pb::ListMachineVersionsResponse>, Status> {
        let (request, origin) = opened(request);
        answered(self.0.list_machine_versions(request, &origin).await)
    }

    async fn explain_resource(
        &self,
        request: Request<pb::ExplainResourceRequest>,
    ) -> Result<Response<pb::ExplainResourceResponse>, Status> {
        let (request, origin) = opened(request);
        answered(self.0.explain_resource(request, &origin).await)
    }

    async fn resolve_operation(
        &self,
        request: Request<pb::ResolveOperationRequest>,
    ) -> Result<Response<pb::ResolveOperationResponse>, Status> {
        let (request, origin) = opened(request);
        answered(self.0.resolve_operation(request, &origin).await)
    }

    async fn start_timeline(
        &self,
        request: Request<pb::StartTimelineRequest>,
    ) -> Result<Response<pb::StartTimelineResponse>, Status> {
        let (request, origin) = opened(request);
        answered(self.0.start_timeline(request, &origin).await)
    }

    async fn get_timeline(
        &self,
        request: Request<pb::GetTimelineRequest>,
    ) -> Result<Response<pb::GetTimelineResponse>, Status> {
        let (_, origin) = opened(request);
        answered(self.0.get_timeline(&origin).await)
    }
}
