//! etcd's Lease service.

use std::sync::Arc;

use etcd_client::proto::{
    PbLeaseGrantRequest, PbLeaseGrantResponse, PbLeaseKeepAliveRequest, PbLeaseKeepAliveResponse,
    PbLeaseLeasesRequest, PbLeaseLeasesResponse, PbLeaseRevokeRequest, PbLeaseRevokeResponse,
    PbLeaseServer, PbLeaseService, PbLeaseStatus, PbLeaseTimeToLiveRequest,
    PbLeaseTimeToLiveResponse,
};
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use uuid::Uuid;

use super::shared::Shared;
use super::store::Store;

type Answer<T> = Result<Response<T>, Status>;

/// Answers made ahead of a client that does not read. No more leases are kept until it does.
const ANSWERS_MAX: usize = 64;
/// What etcd answers for the time left of a lease that is not there.
const GONE_SECONDS: i64 = -1;

#[derive(Clone, Debug)]
pub(super) struct Lease {
    shared: Arc<Shared>,
}

pub(super) fn service(shared: &Arc<Shared>) -> PbLeaseServer<Lease> {
    PbLeaseServer::new(Lease {
        shared: Arc::clone(shared),
    })
}

/// A positive id that no lease has.
fn free_id(store: &Store) -> i64 {
    loop {
        let (high, _) = Uuid::new_v4().as_u64_pair();
        let id = i64::try_from(high >> 1).unwrap_or_default();
        if id != 0 && !store.leases.contains(id) {
            return id;
        }
    }
}

async fn keep_alive(
    shared: Arc<Shared>,
    mut requests: Streaming<PbLeaseKeepAliveRequest>,
    answers: mpsc::Sender<Result<PbLeaseKeepAliveResponse, Status>>,
) {
    loop {
        let request = tokio::select! {
            () = answers.closed() => return,
            request = requests.next() => request,
        };
        let Some(request) = request else { return };
        let answer = request.map(|request| renew(&shared, request));
        let failed = answer.is_err();
        if answers.send(answer).await.is_err() || failed {
            return;
        }
    }
}

fn renew(shared: &Shared, request: PbLeaseKeepAliveRequest) -> PbLeaseKeepAliveResponse {
    let id = request.id;
    let (newest, ttl) = shared.with(|store| {
        // The revision of the header is taken before the renewal, so that a revoke which the
        // client sees at a later revision is known to be the later of the two.
        let newest = store.revision();
        (newest, store.renew(id, Instant::now()))
    });
    PbLeaseKeepAliveResponse {
        header: shared.identity.header(newest),
        id,
        ttl: ttl.unwrap_or_default(),
    }
}

#[tonic::async_trait]
impl PbLeaseService for Lease {
    async fn lease_grant(
        &self,
        request: Request<PbLeaseGrantRequest>,
    ) -> Answer<PbLeaseGrantResponse> {
        let request = request.into_inner();
        let (id, ttl, newest) = self.shared.with(|store| {
            let id = if request.id == 0 {
                free_id(store)
            } else {
                request.id
            };
            let ttl = store.leases.grant(id, request.ttl, Instant::now())?;
            Ok::<_, Status>((id, ttl, store.revision()))
        })?;
        self.shared.lease_granted.notify_one();
        let header = self.shared.identity.header(newest);
        Ok(Response::new(PbLeaseGrantResponse {
            header,
            id,
            ttl,
            error: String::new(),
        }))
    }

    async fn lease_revoke(
        &self,
        request: Request<PbLeaseRevokeRequest>,
    ) -> Answer<PbLeaseRevokeResponse> {
        let id = request.into_inner().id;
        let newest = self
            .shared
            .with(|store| store.revoke(id).map(|()| store.revision()))?;
        Ok(Response::new(PbLeaseRevokeResponse {
            header: self.shared.identity.header(newest),
        }))
    }

    type LeaseKeepAliveStream = ReceiverStream<Result<PbLeaseKeepAliveResponse, Status>>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<PbLeaseKeepAliveRequest>>,
    ) -> Answer<Self::LeaseKeepAliveStream> {
        let (answers, read) = mpsc::channel(ANSWERS_MAX);
        // A lease is kept when that is asked for, whenever the answers are read.
        tokio::spawn(keep_alive(
            Arc::clone(&self.shared),
            request.into_inner(),
            answers,
        ));
        Ok(Response::new(ReceiverStream::new(read)))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<PbLeaseTimeToLiveRequest>,
    ) -> Answer<PbLeaseTimeToLiveResponse> {
        let request = request.into_inner();
        let mut response = PbLeaseTimeToLiveResponse {
            id: request.id,
            ttl: GONE_SECONDS,
            ..PbLeaseTimeToLiveResponse::default()
        };
        self.shared.with(|store| {
            response.header = self.shared.identity.header(store.revision());
            if let Some(lease) = store.leases.get(request.id) {
                response.ttl = lease.seconds_left(Instant::now());
                response.granted_ttl = lease.ttl_seconds();
                if request.keys {
                    response.keys = lease.keys().map(|key| key.to_vec()).collect();
                }
            }
        });
        Ok(Response::new(response))
    }

    async fn lease_leases(
        &self,
        _: Request<PbLeaseLeasesRequest>,
    ) -> Answer<PbLeaseLeasesResponse> {
        let response = self.shared.with(|store| PbLeaseLeasesResponse {
            header: self.shared.identity.header(store.revision()),
            leases: store.leases.ids().map(|id| PbLeaseStatus { id }).collect(),
        });
        Ok(Response::new(response))
    }
}
