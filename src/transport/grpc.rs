//! The calls as gRPC.
//!
//! All of these are unary, and the gate has read the message whole. So there is no stream to keep: the message is decoded where it
//! stands, and the answer goes out in one piece. The library's server decodes and encodes streams, with buffers of 8 KiB on both
//! sides of each call and its headers copied, which costs more than all else that a call needs.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame};
use prost::Message;
use tonic::Status;
use tonic::body::Body;

use crate::engine::Fault;

use super::calls::Calls;
use super::convert::refused;
use super::door::Peer;
use super::gate::{Admitted, Gate, Terms};
use super::json::Rpc;
use super::{MESSAGE_BYTES_MAX, status, timeouts};

/// What gRPC puts before each message: a flag and a length.
pub(super) const FRAME_BYTES: usize = 5;

pub(super) const STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// The gRPC door. Cheap to clone.
#[derive(Clone)]
pub(super) struct Grpc {
    calls: Calls,
    gate: Gate,
}

impl Grpc {
    pub(super) fn new(calls: Calls, gate: Gate) -> Self {
        Self { calls, gate }
    }

    /// Answers a request to a method of the service.
    pub(super) async fn answer<B>(
        &self,
        method: Option<Rpc>,
        request: Request<B>,
        peer: &Peer,
    ) -> Response<Body>
    where
        B: HttpBody<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Some(rpc) = method else {
            return Status::unimplemented("there is no such method").into_http();
        };
        let answer = match self.gate.admit(request, peer, terms()).await {
            Ok(admitted) => {
                let answer = self.call(rpc, &admitted).await;
                answer.and_then(|message| {
                    let kept = self.gate.answered(admitted, message);
                    kept.map_err(|fault| status::of(&fault))
                })
            }
            Err(fault) => Err(status::of(&fault)),
        };
        match answer {
            Ok(message) => with_message(message),
            Err(status) => status.into_http(),
        }
    }

    async fn call(&self, rpc: Rpc, call: &Admitted) -> Result<Bytes, Status> {
        let message = one_message(&call.message)?;
        let (calls, origin) = (&self.calls, &call.origin);
        match rpc {
            Rpc::Reserve => framed(calls.reserve(read(message)?, origin).await),
            Rpc::Transition => framed(calls.transition(read(message)?, origin).await),
            Rpc::Fence => framed(calls.fence(read(message)?, origin).await),
            Rpc::Renew => framed(calls.renew(read(message)?, origin).await),
            Rpc::Release => framed(calls.release(read(message)?, origin).await),
            Rpc::Lookup => framed(calls.lookup(read(message)?, origin).await),
            Rpc::Inspect => framed(calls.inspect(read(message)?, origin).await),
        }
    }
}

/// What this door takes.
pub(super) fn terms() -> Terms {
    Terms {
        timeout: timeouts::of_grpc,
        bytes_max: MESSAGE_BYTES_MAX + FRAME_BYTES,
    }
}

/// The message of a body, which must be one, whole and not compressed.
pub(super) fn one_message(body: &Bytes) -> Result<Bytes, Status> {
    let refuse = |why: &str| Err(status::of(&refused("body", why)));
    let Some(([flag, length @ ..], message)) = body.split_first_chunk::<FRAME_BYTES>() else {
        return refuse("is too short to hold a message");
    };
    if usize::try_from(u32::from_be_bytes(*length)) != Ok(message.len()) {
        return refuse("must be one message, of exactly the length that stands before it");
    }
    if *flag != 0 {
        return Err(Status::internal(
            "the message is marked as compressed, and no grpc-encoding was named",
        ));
    }
    Ok(body.slice_ref(message))
}

pub(super) fn read<M: Message + Default>(message: Bytes) -> Result<M, Status> {
    M::decode(message).map_err(|error| unreadable(&error))
}

/// What is no message of the call that it was sent to.
pub(super) fn unreadable(error: &prost::DecodeError) -> Status {
    status::of(&refused(
        "body",
        format!("is no message of this call: {error}"),
    ))
}

fn framed<M: Message>(answer: Result<M, Fault>) -> Result<Bytes, Status> {
    answer
        .map(|message| frame_of(&message))
        .map_err(|fault| status::of(&fault))
}

/// The message with what stands before it.
pub(super) fn frame_of<M: Message>(message: &M) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(FRAME_BYTES + length);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).expect("an answer is far below 4 GiB"));
    message
        .encode(&mut bytes)
        .expect("a buffer that grows has room");
    bytes.freeze()
}

fn with_message(message: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::new(Unary {
        message: Some(message),
        ended: false,
    }));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// The body of an answer: one message, then that all is well.
struct Unary {
    message: Option<Bytes>,
    ended: bool,
}

impl HttpBody for Unary {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = match self.message.take() {
            Some(message) => Some(Frame::data(message)),
            None if self.ended => None,
            None => {
                self.ended = true;
                let mut trailers = HeaderMap::with_capacity(1);
                trailers.insert(STATUS, HeaderValue::from_static("0"));
                Some(Frame::trailers(trailers))
            }
        };
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}
