//! The calls that are answered by a stream, at the same door as all others.
//!
//! One message opens a stream, and has passed the gate like any other. Then the stream gives back its place among the calls
//! under way and takes one among the streams, here and on its connection. What is told is asked for when the connection has
//! room for it, so a caller who does not read fills no buffer.

mod body;

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body::Body as HttpBody;
use tonic::Status;
use tonic::body::Body;

use crate::engine::{Boottime, FollowEnd, Following, Hold, HoldEnd};

use super::calls::Calls;
use super::convert;
use super::door::Peer;
use super::gate::Gate;
use super::grpc::{frame_of, one_message, read, terms};
use super::status;
use body::{Told, streamed};

/// The streaming calls of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Streaming {
    Hold,
    Watch,
}

impl Streaming {
    /// The call of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "Hold" => Some(Self::Hold),
            "Watch" => Some(Self::Watch),
            _ => None,
        }
    }

    /// What to do at a door that serves no streams.
    pub(super) fn instead(self) -> &'static str {
        match self {
            Self::Hold => {
                "Hold is a stream, which is not served as JSON: call Renew about every third of the TTL, or use gRPC"
            }
            Self::Watch => {
                "Watch is a stream, which is not served as JSON: call Inspect now and then, or use gRPC"
            }
        }
    }
}

/// The door to streams. Cheap to clone.
#[derive(Clone)]
pub(super) struct Streams {
    calls: Calls,
    gate: Gate,
}

impl Streams {
    pub(super) fn new(calls: Calls, gate: Gate) -> Self {
        Self { calls, gate }
    }

    /// Opens a stream.
    pub(super) async fn answer<B>(
        &self,
        method: Streaming,
        request: Request<B>,
        peer: &Peer,
    ) -> Response<Body>
    where
        B: HttpBody<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let opened = self.open(method, request, peer).await;
        opened.unwrap_or_else(Status::into_http)
    }

    async fn open<B>(
        &self,
        method: Streaming,
        request: Request<B>,
        peer: &Peer,
    ) -> Result<Response<Body>, Status>
    where
        B: HttpBody<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let admitted = self.gate.admit(request, peer, terms()).await;
        let admitted = admitted.map_err(|fault| status::of(&fault))?;
        let place = self.gate.open_stream(method, peer);
        let place = place.map_err(|fault| status::of(&fault))?;
        let message = one_message(&admitted.message)?;
        let origin = &admitted.origin;
        let told: Told = match method {
            Streaming::Hold => {
                let hold = self.calls.hold(read(message)?, origin).await;
                Box::pin(holding(hold.map_err(|fault| status::of(&fault))?))
            }
            Streaming::Watch => {
                let following = self.calls.watch(read(message)?, origin).await;
                Box::pin(watching(following.map_err(|fault| status::of(&fault))?))
            }
        };
        let span = origin.said.span_of_stream();
        let left = span.map(|span| origin.caller.arrived.plus(span).since(Boottime::now()));
        Ok(streamed(told, left, place))
    }
}

fn holding(hold: Hold) -> impl futures_util::Stream<Item = Result<Bytes, Status>> + Send {
    stream::unfold(Some(hold), |hold| async {
        let mut hold = hold?;
        match hold.next().await {
            Ok(held) => {
                let message = frame_of(&convert::stream::held(held));
                Some((Ok(message), Some(hold)))
            }
            Err(HoldEnd::AllLost) => None,
            Err(HoldEnd::Stopping) => Some((Err(status::stream_stopped()), None)),
        }
    })
}

fn watching(
    following: Following,
) -> impl futures_util::Stream<Item = Result<Bytes, Status>> + Send {
    stream::unfold(Some(following), |following| async {
        let mut following = following?;
        Some(match following.next().await {
            Ok(shown) => {
                let message = frame_of(&convert::stream::shown(shown));
                (Ok(message), Some(following))
            }
            Err(FollowEnd::Stopping) => (Err(status::stream_stopped()), None),
            Err(FollowEnd::Failed(fault)) => (Err(status::of(&fault)), None),
        })
    })
}
