//! etcd's KV service.

use std::sync::Arc;

use etcd_client::proto::{
    PbCompactionRequest, PbCompactionResponse, PbDeleteRequest, PbDeleteResponse, PbKvServer,
    PbKvService, PbPutRequest, PbPutResponse, PbRangeRequest, PbRangeResponse,
    PbRangeStreamResponse, PbTxnRequest, PbTxnResponse,
};
use futures_util::stream::{self, Once};
use tonic::{Request, Response, Status};

use super::shared::Shared;
use super::{check, range, txn};

type Answer<T> = Result<Response<T>, Status>;

#[derive(Clone, Debug)]
pub(super) struct Kv {
    shared: Arc<Shared>,
}

pub(super) fn service(shared: &Arc<Shared>) -> PbKvServer<Kv> {
    PbKvServer::new(Kv {
        shared: Arc::clone(shared),
    })
}

impl Kv {
    fn read(&self, request: &PbRangeRequest) -> Result<PbRangeResponse, Status> {
        check::message(request)?;
        check::range(request)?;
        let mut response = self.shared.with(|store| range::range(store, request))?;
        self.shared.identity.sign(&mut response.header);
        Ok(response)
    }
}

#[tonic::async_trait]
impl PbKvService for Kv {
    async fn range(&self, request: Request<PbRangeRequest>) -> Answer<PbRangeResponse> {
        self.read(&request.into_inner()).map(Response::new)
    }

    type RangeStreamStream = Once<std::future::Ready<Result<PbRangeStreamResponse, Status>>>;

    /// etcd 3.4 does not have it yet; the one part sent here is the whole.
    async fn range_stream(
        &self,
        request: Request<PbRangeRequest>,
    ) -> Answer<Self::RangeStreamStream> {
        let range_response = Some(self.read(&request.into_inner())?);
        let whole = Ok(PbRangeStreamResponse { range_response });
        Ok(Response::new(stream::once(std::future::ready(whole))))
    }

    async fn put(&self, request: Request<PbPutRequest>) -> Answer<PbPutResponse> {
        let request = request.into_inner();
        check::message(&request)?;
        check::put(&request)?;
        check::proposal(&request)?;
        let mut response = self.shared.with(|store| txn::put(store, request))?;
        self.shared.identity.sign(&mut response.header);
        Ok(Response::new(response))
    }

    async fn delete_range(&self, request: Request<PbDeleteRequest>) -> Answer<PbDeleteResponse> {
        let request = request.into_inner();
        check::message(&request)?;
        check::delete(&request)?;
        check::proposal(&request)?;
        let mut response = self.shared.with(|store| txn::delete(store, &request));
        self.shared.identity.sign(&mut response.header);
        Ok(Response::new(response))
    }

    async fn txn(&self, request: Request<PbTxnRequest>) -> Answer<PbTxnResponse> {
        let request = request.into_inner();
        check::message(&request)?;
        check::txn(&request)?;
        if !check::reads_only(&request) {
            check::proposal(&request)?;
        }
        let mut response = self.shared.with(|store| txn::txn(store, request))?;
        self.shared.identity.sign(&mut response.header);
        Ok(Response::new(response))
    }

    async fn compact(&self, request: Request<PbCompactionRequest>) -> Answer<PbCompactionResponse> {
        let revision = request.into_inner().revision;
        let newest = self
            .shared
            .with(|store| store.compact(revision).map(|()| store.revision()))?;
        Ok(Response::new(PbCompactionResponse {
            header: self.shared.identity.header(newest),
        }))
    }
}
