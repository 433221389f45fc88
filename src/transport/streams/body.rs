//! The body of an answer that is a stream: messages as they come, then how it ended.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http_body::{Body as HttpBody, Frame};
use tokio_util::task::AbortOnDropHandle;
use tonic::Status;
use tonic::body::Body;

use crate::transport::gate::StreamPlace;
use crate::transport::grpc::STATUS;
use crate::transport::status;

/// Messages, each with what stands before it, or the status in which the stream ends.
pub(super) type Told = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

/// The answer. `left`: how long it may stay open.
pub(super) fn streamed(told: Told, left: Option<Duration>, place: StreamPlace) -> Response<Body> {
    let state = Arc::new(Mutex::new(State::Open(Open {
        told,
        _place: place,
        polled_by: None,
    })));
    // A body is asked for more only when its reader takes more, and the deadline is not to wait for that.
    let deadline = left.map(|left| {
        let state = Arc::clone(&state);
        let ending = tokio::spawn(async move {
            tokio::time::sleep(left).await;
            expire(&state);
        });
        AbortOnDropHandle::new(ending)
    });
    let mut response = Response::new(Body::new(Streamed {
        state,
        _deadline: deadline,
    }));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

struct Streamed {
    state: Arc<Mutex<State>>,
    _deadline: Option<AbortOnDropHandle<()>>,
}

enum State {
    Open(Open),
    /// The deadline has passed, which its reader has not been told yet.
    Expired,
    Ended,
}

struct Open {
    told: Told,
    _place: StreamPlace,
    polled_by: Option<Waker>,
}

/// Gives back what a stream holds, also if nobody reads it.
fn expire(state: &Mutex<State>) {
    let mut now = lock(state);
    if let State::Open(open) = std::mem::replace(&mut *now, State::Expired) {
        drop(now);
        if let Some(waker) = open.polled_by {
            waker.wake();
        }
    } else {
        *now = State::Ended;
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HttpBody for Streamed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let mut state = lock(&self.state);
        let ended = match &mut *state {
            State::Open(open) => match open.told.as_mut().poll_next(context) {
                Poll::Ready(Some(Ok(message))) => {
                    return Poll::Ready(Some(Ok(Frame::data(message))));
                }
                Poll::Ready(Some(Err(status))) => Err(status),
                Poll::Ready(None) => Ok(()),
                Poll::Pending => {
                    open.polled_by = Some(context.waker().clone());
                    return Poll::Pending;
                }
            },
            State::Expired => Err(status::stream_deadline()),
            State::Ended => return Poll::Ready(None),
        };
        // What it holds is given back now, not when the last byte was read.
        let before = std::mem::replace(&mut *state, State::Ended);
        drop(state);
        drop(before);
        Poll::Ready(Some(Ok(Frame::trailers(trailers(ended)))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&*lock(&self.state), State::Ended)
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
