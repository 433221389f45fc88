//! The body of an answer that is a stream: messages as they come, then how it ended.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http_body::{Body as HttpBody, Frame};
use tokio::time::Sleep;
use tonic::Status;
use tonic::body::Body;

use crate::transport::gate::StreamPlace;
use crate::transport::grpc::STATUS;
use crate::transport::status;

/// Messages, each with what stands before it, or the status in which the stream ends.
pub(super) type Told = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

/// The answer. `left`: how long it may stay open.
pub(super) fn streamed(told: Told, left: Option<Duration>, place: StreamPlace) -> Response<Body> {
    let mut response = Response::new(Body::new(Streamed {
        told: Some(told),
        deadline: left.map(|left| Box::pin(tokio::time::sleep(left))),
        _place: place,
    }));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

struct Streamed {
    /// `None`: it has ended.
    told: Option<Told>,
    deadline: Option<Pin<Box<Sleep>>>,
    _place: StreamPlace,
}

impl HttpBody for Streamed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(told) = &mut self.told else {
            return Poll::Ready(None);
        };
        let ended = match told.as_mut().poll_next(context) {
            Poll::Ready(Some(Ok(message))) => return Poll::Ready(Some(Ok(Frame::data(message)))),
            Poll::Ready(Some(Err(status))) => Err(status),
            Poll::Ready(None) => Ok(()),
            Poll::Pending => match self.deadline.as_mut().map(|at| at.as_mut().poll(context)) {
                Some(Poll::Ready(())) => Err(status::stream_deadline()),
                Some(Poll::Pending) | None => return Poll::Pending,
            },
        };
        // What it holds is given back now, not when the last byte was read.
        self.told = None;
        Poll::Ready(Some(Ok(Frame::trailers(trailers(ended)))))
    }

    fn is_end_stream(&self) -> bool {
        self.told.is_none()
    }
}

fn trailers(ended: Result<(), Status>) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    match ended {
        Ok(()) => {
            trailers.insert(STATUS, HeaderValue::from_static("0"));
        }
        Err(status) => {
            if status.add_header(&mut trailers).is_err() {
                // Its text or details do not fit into headers; the code does.
                trailers.insert(STATUS, HeaderValue::from(i32::from(status.code())));
            }
        }
    }
    trailers
}
