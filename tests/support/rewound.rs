//! A seam that makes etcd seem to be further back than it is: the headers of its answers name lower revisions.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::task::{Context, Poll};

use bytes::{BufMut as _, Bytes, BytesMut};
use etcd_client::Channel;
use etcd_client::proto::{PbRangeResponse, PbResponseOp, PbTxnOpResponse, PbTxnResponse};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use prost::Message as _;
use tonic::body::Body;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceExt as _};

use super::fault::MESSAGE_HEAD_BYTES;

/// How far back; 0: not at all.
#[derive(Debug, Default)]
struct Shared {
    by: AtomicI64,
    only_reads: AtomicBool,
}

/// What is done to the answers of one wrapped channel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rewinding(Arc<Shared>);

impl Rewinding {
    /// Puts the seam into a channel.
    pub(crate) fn wrap(channel: Channel) -> (Channel, Self) {
        let rewinding = Self::default();
        let line = Line {
            etcd: channel,
            rewinding: rewinding.clone(),
        };
        (Channel::Custom(BoxCloneSyncService::new(line)), rewinding)
    }

    /// All answers about keys seem to come from so many revisions ago.
    pub(crate) fn rewind(&self, by: i64) {
        self.0.only_reads.store(false, Ordering::SeqCst);
        self.0.by.store(by, Ordering::SeqCst);
    }

    /// Those seem so that tell of no write.
    pub(crate) fn rewind_reads(&self, by: i64) {
        self.0.only_reads.store(true, Ordering::SeqCst);
        self.0.by.store(by, Ordering::SeqCst);
    }

    /// They are told as they are.
    pub(crate) fn stop(&self) {
        self.0.by.store(0, Ordering::SeqCst);
    }

    /// The same answer with an earlier revision. The header is the only part that changes.
    fn rewound(&self, path: &str, message: &[u8]) -> Option<Vec<u8>> {
        let by = self.0.by.load(Ordering::SeqCst);
        if by == 0 {
            return None;
        }
        match path {
            "/etcdserverpb.KV/Txn" => {
                let mut reply = PbTxnResponse::decode(message).ok()?;
                let is_read = |one: &PbResponseOp| {
                    matches!(one.response, Some(PbTxnOpResponse::ResponseRange(_)))
                };
                let reads = reply.responses.iter().all(is_read);
                if reads || !self.0.only_reads.load(Ordering::SeqCst) {
                    reply.header.as_mut()?.revision -= by;
                }
                Some(reply.encode_to_vec())
            }
            "/etcdserverpb.KV/Range" => {
                let mut reply = PbRangeResponse::decode(message).ok()?;
                reply.header.as_mut()?.revision -= by;
                Some(reply.encode_to_vec())
            }
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
struct Line {
    etcd: Channel,
    rewinding: Rewinding,
}

impl Line {
    async fn carry(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let path = request.uri().path().to_owned();
        let answer = self.etcd.clone().oneshot(request).await?;
        if !path.starts_with("/etcdserverpb.KV/") {
            return Ok(answer);
        }
        let (head, body) = answer.into_parts();
        let collected = body.collect().await?;
        let trailers = collected.trailers().cloned();
        let whole = collected.to_bytes();
        let message = whole.get(MESSAGE_HEAD_BYTES..).unwrap_or_default();
        let whole = match self.rewinding.rewound(&path, message) {
            Some(rewound) => framed(&rewound),
            None => whole,
        };
        let body = Full::new(whole).with_trailers(async move { trailers.map(Ok) });
        Ok(Response::from_parts(head, Body::new(body)))
    }
}

fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).expect("a small message"));
    frame.put_slice(message);
    frame.freeze()
}

impl Service<Request<Body>> for Line {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().carry(request))
    }
}
