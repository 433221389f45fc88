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
}
