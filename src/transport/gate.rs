//! What every call passes first: the clock is read, room is taken, and the message is read whole within the deadline and the
//! size limit. A caller that sends slowly holds its place no longer than its own deadline, and a stop hardly at all. And last: an
//! answer keeps the place of its call until it was taken.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::request::{Parts, Request};
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::engine::{Boottime, Caller, Fault, WAITERS_MAX};

use super::convert::refused;
use super::door::Peer;
use super::streams::Streaming;
use super::timeouts::Said;
use super::untaken::{ANSWER_BYTES_MAX, SMALL_ANSWER_BYTES_MAX, keeping};

/// Most calls under way at once, those included whose answers were not taken yet. Over it a call is turned away at once: a queue would only hide that there is too much.
pub(super) const CALLS_UNDER_WAY_MAX: u32 = 4096;
// However many wait, half of the room stays for those who do not.
const _: () = assert!(WAITERS_MAX * 2 <= CALLS_UNDER_WAY_MAX);
/// Most bytes of messages held at once, those still being read included. The calls alone would bound them only by gigabytes.
pub(super) const BYTES_HELD_MAX: u32 = 64 * 1024 * 1024;
/// Most streams open at once of each kind. They hold no place among the calls under way once they are open.
pub(super) const HOLD_STREAMS_MAX: usize = 4096;
pub(super) const WATCH_STREAMS_MAX: usize = 512;
/// Contents digested at once on threads of their own: each takes memory many times its size while it is read.
const SLOW_DIGESTS_MAX: usize = 2;
/// When to ask again after there was no room.
const OVERLOADED_RETRY_AFTER: Duration = Duration::from_millis(100);
/// When to ask again a sidecar that is going down: another one should be there by then.
const STOPPING_RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long what is still to come of a message is waited for once the sidecar is told to stop. It takes milliseconds over loopback,
/// and its answer is a refusal in any case: all that it is waited for is that its sender may hear that.
const REST_ARRIVES_WITHIN: Duration = Duration::from_millis(500);

/// Counts the calls under way.
#[derive(Clone, Debug)]
pub struct Gate {
    room: Arc<Semaphore>,
    /// Those that are not answered yet, which a stop waits for.
    unanswered: TaskTracker,
    answers: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    slow_digests: Arc<Semaphore>,
    holds: Arc<Semaphore>,
    watches: Arc<Semaphore>,
    stopping: CancellationToken,
}

/// The place of an open stream. Dropping it gives it back.
pub(super) struct StreamPlace {
    _of_all: OwnedSemaphorePermit,
    _of_connection: OwnedSemaphorePermit,
}

/// Who asks.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) caller: Caller,
    /// How long the caller waits, as it said.
    pub(super) said: Said,
    pub(super) peer: Peer,
    /// Taken while a large content is digested.
    pub(super) slow_digests: Arc<Semaphore>,
}

impl Origin {
    /// The caller of a call that asks for a wait.
    pub(super) fn caller_waiting(&self, wait: Duration) -> Caller {
        Caller {
            deadline: self.caller.arrived.plus(self.said.span_with(wait)),
            ..self.caller
        }
    }
}

/// A place among the calls under way.
struct Place {
    room: OwnedSemaphorePermit,
    _unanswered: TaskTrackerToken,
}

/// A call that may go on. Dropping it gives back its place.
pub(super) struct Admitted {
    pub(super) parts: Parts,
    pub(super) message: Bytes,
    pub(super) origin: Origin,
    place: Place,
    _bytes: Option<OwnedSemaphorePermit>,
}

/// What a door takes.
pub(super) struct Terms {
    pub(super) timeout: fn(&HeaderMap) -> Result<Said, Fault>,
    pub(super) bytes_max: usize,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            room: Arc::new(Semaphore::new(size(CALLS_UNDER_WAY_MAX))),
            unanswered: TaskTracker::new(),
            answers: Arc::new(Semaphore::new(size(ANSWER_BYTES_MAX))),
            bytes: Arc::new(Semaphore::new(size(BYTES_HELD_MAX))),
            slow_digests: Arc::new(Semaphore::new(SLOW_DIGESTS_MAX)),
            holds: Arc::new(Semaphore::new(HOLD_STREAMS_MAX)),
            watches: Arc::new(Semaphore::new(WATCH_STREAMS_MAX)),
            stopping: CancellationToken::new(),
        }
    }
}

impl Gate {
    /// From now on calls are turned away.
    pub fn close(&self) {
        self.stopping.cancel();
    }

    /// Waits until every call is answered, whether or not its caller has taken the answer. For a gate that was closed.
    pub async fn empty(&self) {
        self.unanswered.close();
        self.unanswered.wait().await;
    }

    /// Lets a call in.
    pub(super) async fn admit<B>(
        &self,
        request: Request<B>,
        peer: &Peer,
        terms: Terms,
    ) -> Result<Admitted, Fault>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let arrived = Boottime::now();
        let place = self.take_place()?;
        let said = (terms.timeout)(request.headers())?;
        let deadline = arrived.plus(said.span());
        let (parts, body) = request.into_parts();
        let reading = tokio::time::timeout(deadline.left(), self.whole(body, terms.bytes_max));
        let (message, bytes) = tokio::select! {
            biased;
            read = reading => read.map_err(|_| Fault::DeadlinePassed)??,
            () = self.rest_is_late() => return Err(stopping()),
        };
        if deadline.left().is_zero() {
            return Err(Fault::DeadlinePassed);
        }
        Ok(Admitted {
            parts,
            message,
            origin: Origin {
                caller: Caller { arrived, deadline },
                said,
                peer: peer.clone(),
                slow_digests: Arc::clone(&self.slow_digests),
            },
            place,
            _bytes: bytes,
        })
    }

    /// The answer of a call, which is under way no more, and keeps its place until it was taken. What has no room is not kept: its
    /// caller learns it by asking again.
    pub(super) fn answered(&self, call: Admitted, message: Bytes) -> Result<Bytes, Fault> {
        let bytes = if message.len() > SMALL_ANSWER_BYTES_MAX {
            let count = u32::try_from(message.len()).unwrap_or(u32::MAX);
            let room = Arc::clone(&self.answers).try_acquire_many_owned(count);
            Some(room.map_err(|_| Fault::AnswerUnkept {
                limit: size(ANSWER_BYTES_MAX),
                retry_after: OVERLOADED_RETRY_AFTER,
            })?)
        } else {
            None
        };
        let untaken = call.origin.peer.not_taken();
        Ok(keeping(message, call.place.room, bytes, untaken))
    }

    /// Room for one more stream, here and on its connection.
    pub(super) fn open_stream(&self, of: Streaming, peer: &Peer) -> Result<StreamPlace, Fault> {
        let (all, limit, what) = match of {
            Streaming::Hold => (
                &self.holds,
                HOLD_STREAMS_MAX,
                "too many Hold streams are open here",
            ),
            Streaming::Watch => (
                &self.watches,
                WATCH_STREAMS_MAX,
                "too many Watch streams are open here",
            ),
        };
        let of_all = Arc::clone(all).try_acquire_owned();
        Ok(StreamPlace {
            _of_all: of_all.map_err(|_| overloaded(what, limit))?,
            _of_connection: peer.stream()?,
        })
    }

    fn take_place(&self) -> Result<Place, Fault> {
        if self.stopping.is_cancelled() {
            return Err(stopping());
        }
        let what = "too many calls are under way here";
        let room = Arc::clone(&self.room).try_acquire_owned();
        Ok(Place {
            room: room.map_err(|_| overloaded(what, size(CALLS_UNDER_WAY_MAX)))?,
            _unanswered: self.unanswered.token(),
        })
    }

    /// A call that is under way for as long as this is kept.
    #[cfg(test)]
    pub(crate) fn call_under_way(&self) -> impl Drop + use<> {
        self.take_place().expect("there is room")._unanswered
    }

    /// Waits until what is not here whole is not waited for any more.
    async fn rest_is_late(&self) {
        self.stopping.cancelled().await;
        tokio::time::sleep(REST_ARRIVES_WITHIN).await;
    }

    /// Reads a message whole. Each part is counted before it is kept.
    async fn whole<B>(
        &self,
        body: B,
        bytes_max: usize,
    ) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Fault>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let too_large = || Fault::LimitMet {
            what: "the message has too many bytes; a large content can be sent as its digest",
            limit: bytes_max,
        };
        // A length that is announced need not be waited for.
        if usize::try_from(body.size_hint().lower()).map_or(true, |bytes| bytes > bytes_max) {
            return Err(too_large());
        }
        let mut body = pin!(body);
        let mut message = BytesMut::new();
        let mut held: Option<OwnedSemaphorePermit> = None;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| refused("body", "ended before it was complete"))?;
            let Ok(part) = frame.into_data() else {
                continue;
            };
            if part.len() > bytes_max - message.len() {
                return Err(too_large());
            }
            let bytes = u32::try_from(part.len()).map_err(|_| too_large())?;
            let more = Arc::clone(&self.bytes)
                .try_acquire_many_owned(bytes)
                .map_err(|_| {
                    let what = "the messages of the calls under way here have too many bytes";
                    overloaded(what, size(BYTES_HELD_MAX))
                })?;
            match held.as_mut() {
                Some(held) => held.merge(more),
                None => held = Some(more),
            }
            message.extend_from_slice(&part);
        }
        Ok((message.freeze(), held))
    }
}

fn stopping() -> Fault {
    Fault::Stopping {
        retry_after: STOPPING_RETRY_AFTER,
    }
}

/// There is too much of something for the moment.
pub(super) fn overloaded(what: &'static str, limit: usize) -> Fault {
    Fault::Overloaded {
        what,
        limit,
        retry_after: OVERLOADED_RETRY_AFTER,
    }
}

fn size(count: u32) -> usize {
    usize::try_from(count).unwrap_or(Semaphore::MAX_PERMITS)
}

#[cfg(test)]
mod tests;
