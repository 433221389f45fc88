//! What every call passes first: the clock is read, room is taken, and the message is read whole within the deadline and the
//! size limit. A caller that sends slowly holds its place no longer than its own deadline, and a stop hardly at all.

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

use crate::engine::{Boottime, Caller, Fault, WAITERS_MAX};

use super::convert::refused;
use super::door::Peer;
use super::streams::Streaming;
use super::timeouts::Said;

/// Most calls under way at once. Over it a call is turned away at once: a queue would only hide that there is too much.
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

/// A call that may go on. Dropping it gives back its place.
pub(super) struct Admitted {
    pub(super) parts: Parts,
    pub(super) message: Bytes,
    pub(super) origin: Origin,
    _place: OwnedSemaphorePermit,
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
            room: Arc::new(Semaphore::new(
                usize::try_from(CALLS_UNDER_WAY_MAX).unwrap_or(Semaphore::MAX_PERMITS),
            )),
            bytes: Arc::new(Semaphore::new(
                usize::try_from(BYTES_HELD_MAX).unwrap_or(Semaphore::MAX_PERMITS),
            )),
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

    /// Waits until no call is under way.
    pub async fn empty(&self) {
        // The semaphore is never closed, so this cannot fail.
        let _all = self.room.acquire_many(CALLS_UNDER_WAY_MAX).await;
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
            _place: place,
            _bytes: bytes,
        })
    }

    /// Room for one more stream, here and on its connection.
    pub(super) fn open_stream(&self, of: Streaming, peer: &Peer) -> Result<StreamPlace, Fault> {
        let all = match of {
            Streaming::Hold => &self.holds,
            Streaming::Watch => &self.watches,
        };
        let one_of = |places: &Arc<Semaphore>| {
            let place = Arc::clone(places).try_acquire_owned();
            place.map_err(|_| overloaded())
        };
        Ok(StreamPlace {
            _of_all: one_of(all)?,
            _of_connection: one_of(peer.streams())?,
        })
    }

    fn take_place(&self) -> Result<OwnedSemaphorePermit, Fault> {
        if self.stopping.is_cancelled() {
            return Err(stopping());
        }
        Arc::clone(&self.room)
            .try_acquire_owned()
            .map_err(|_| overloaded())
    }

    /// A call that is under way for as long as this is kept.
    #[cfg(test)]
    pub(crate) fn call_under_way(&self) -> impl Drop + use<> {
        self.take_place().expect("there is room")
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
                .map_err(|_| overloaded())?;
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

fn overloaded() -> Fault {
    Fault::Overloaded {
        retry_after: OVERLOADED_RETRY_AFTER,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{StreamExt as _, stream};
    use http_body::Frame;
    use http_body_util::{Full, StreamBody};

    use super::*;

    const TERMS: Terms = Terms {
        timeout: |_| Ok(Said::within(Duration::from_secs(10))),
        bytes_max: 4,
    };

    fn request(body: &'static str) -> Request<Full<Bytes>> {
        Request::new(Full::from(body))
    }

    async fn admitted(gate: &Gate, body: &'static str) -> Result<Admitted, Fault> {
        gate.admit(request(body), &Peer::unix(), TERMS).await
    }

    #[tokio::test]
    async fn a_call_without_room_is_turned_away_and_a_place_given_back_is_taken_again() {
        let gate = Gate::default();
        let mut inside = Vec::new();
        for _ in 0..CALLS_UNDER_WAY_MAX {
            inside.push(admitted(&gate, "").await.ok().unwrap());
        }
        let full = admitted(&gate, "").await.err();
        assert!(matches!(full, Some(Fault::Overloaded { .. })), "{full:?}");
        inside.pop();
        assert!(admitted(&gate, "").await.is_ok());
    }

    #[tokio::test]
    async fn more_bytes_than_may_be_held_are_turned_away_and_those_given_back_are_taken_again() {
        const PART: usize = 1024 * 1024;
        let gate = Gate::default();
        let body = || Request::new(Full::from(vec![0; PART]));
        let terms = || Terms {
            bytes_max: PART,
            ..TERMS
        };
        let mut inside = Vec::new();
        for _ in 0..usize::try_from(BYTES_HELD_MAX).unwrap() / PART {
            let call = gate.admit(body(), &Peer::unix(), terms()).await;
            inside.push(call.ok().unwrap());
        }
        let full = gate.admit(body(), &Peer::unix(), terms()).await.err();
        assert!(matches!(full, Some(Fault::Overloaded { .. })), "{full:?}");
        assert!(admitted(&gate, "").await.is_ok());
        inside.pop();
        assert!(gate.admit(body(), &Peer::unix(), terms()).await.is_ok());
    }

    #[tokio::test]
    async fn a_closed_gate_turns_calls_away_and_is_empty_once_the_last_is_over() {
        let gate = Gate::default();
        let inside = admitted(&gate, "").await.ok().unwrap();
        gate.close();
        let late = admitted(&gate, "").await.err();
        assert!(matches!(late, Some(Fault::Stopping { .. })), "{late:?}");
        let mut empty = Box::pin(gate.empty());
        assert!(futures_util::poll!(empty.as_mut()).is_pending());
        drop(inside);
        empty.await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_is_not_here_whole_soon_after_the_gate_closed_is_not_waited_for() {
        for (after, arrives) in [
            (REST_ARRIVES_WITHIN / 2, true),
            (REST_ARRIVES_WITHIN * 2, false),
        ] {
            let (gate, peer) = (Gate::default(), Peer::unix());
            let half = || Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"12")));
            let rest = async move {
                tokio::time::sleep(after).await;
                half()
            };
            let body = stream::iter([half()]).chain(stream::once(Box::pin(rest)));
            let call = gate.admit(Request::new(StreamBody::new(body)), &peer, TERMS);
            let mut call = Box::pin(call);
            assert!(futures_util::poll!(call.as_mut()).is_pending());
            gate.close();
            match call.await {
                Ok(admitted) => assert!(arrives && admitted.message == "1212"),
                Err(fault) => assert!(!arrives && fault == stopping(), "{fault:?}"),
            }
            gate.empty().await;
        }
    }

    #[tokio::test]
    async fn a_message_over_the_limit_is_refused_with_the_limit() {
        let gate = Gate::default();
        assert_eq!(admitted(&gate, "1234").await.ok().unwrap().message, "1234");
        let fault = admitted(&gate, "12345").await.err().unwrap();
        assert_eq!(
            fault.to_string(),
            "the message has too many bytes; a large content can be sent as its digest; the limit is 4"
        );
    }

    #[tokio::test]
    async fn a_caller_that_never_ends_its_message_is_told_that_its_deadline_passed() {
        let gate = Gate::default();
        let silence = futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>();
        let request = Request::new(StreamBody::new(silence));
        let terms = Terms {
            timeout: |_| Ok(Said::within(Duration::from_millis(20))),
            ..TERMS
        };
        let fault = gate.admit(request, &Peer::unix(), terms).await.err();
        assert_eq!(fault, Some(Fault::DeadlinePassed));
    }
}
