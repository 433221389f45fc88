//! Answers that their callers have not taken yet.
//!
//! An answer keeps the place of its call until its last byte was handed to the operating system, or its connection is gone. Being
//! asked for the body is no sign of that: the HTTP libraries keep what a caller's window has no room for. So what is counted
//! hangs on the bytes themselves, and is given back when they are dropped.
//!
//! Whoever does not take an answer would keep it for ever; so its connection is closed after a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

/// Most bytes of answers that wait to be taken, small ones aside.
pub(super) const ANSWER_BYTES_MAX: u32 = 64 * 1024 * 1024;
/// Largest answer that is counted by its place alone, in bytes: most are, and those are never without room.
pub(super) const SMALL_ANSWER_BYTES_MAX: usize = 4 * 1024;
/// How long an answer may wait to be taken. Then its connection is closed, at the next look.
pub const ANSWER_TAKEN_WITHIN: Duration = Duration::from_secs(30);
/// How often a connection is looked at within that.
const LOOKS: usize = 3;
/// Answers are told apart by the span between two looks in which they were made; an older one is too old.
const SPANS: usize = LOOKS + 1;

/// How one connection takes its answers: how many it has not taken yet, by their age.
#[derive(Debug, Default)]
pub(super) struct Taking {
    span: AtomicUsize,
    made: [AtomicUsize; SPANS],
}

impl Taking {
    /// Counts an answer for as long as what is returned is kept.
    pub(super) fn not_taken(self: &Arc<Self>) -> Untaken {
        let span = self.span.load(Ordering::Relaxed) % SPANS;
        self.of(span).fetch_add(1, Ordering::Relaxed);
        Untaken {
            of: Arc::clone(self),
            span,
        }
    }

    /// Waits until an answer was not taken in time.
    pub(super) async fn too_long(&self) {
        let every = ANSWER_TAKEN_WITHIN / u32::try_from(LOOKS).unwrap_or(1);
        loop {
            tokio::time::sleep(every).await;
            let next = self.span.load(Ordering::Relaxed).wrapping_add(1);
            // What was made in the span that is to be used again was there at each look since.
            if self.of(next % SPANS).load(Ordering::Relaxed) > 0 {
                return;
            }
            self.span.store(next, Ordering::Relaxed);
        }
    }

    fn of(&self, span: usize) -> &AtomicUsize {
        let [first, ..] = &self.made;
        self.made.get(span).unwrap_or(first)
    }
}

/// One of them. Dropping it says that it was taken, or never will be.
#[derive(Debug)]
pub struct Untaken {
    of: Arc<Taking>,
    span: usize,
}

impl Drop for Untaken {
    fn drop(&mut self) {
        self.of.of(self.span).fetch_sub(1, Ordering::Relaxed);
    }
}

/// An answer, with what it keeps.
struct Kept {
    message: Bytes,
    _place: Option<OwnedSemaphorePermit>,
    _bytes: Option<OwnedSemaphorePermit>,
    _untaken: Untaken,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

/// The same bytes, which give back all this once nobody has them any more.
pub(super) fn keeping(
    message: Bytes,
    place: OwnedSemaphorePermit,
    bytes: Option<OwnedSemaphorePermit>,
    untaken: Untaken,
) -> Bytes {
    Bytes::from_owner(Kept {
        message,
        _place: Some(place),
        _bytes: bytes,
        _untaken: untaken,
    })
}

/// The same bytes, of a refusal: it has no place of a call.
pub(super) fn counted(message: Bytes, untaken: Untaken) -> Bytes {
    Bytes::from_owner(Kept {
        message,
        _place: None,
        _bytes: None,
        _untaken: untaken,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_taken_ends_the_wait_in_time_and_one_that_is_does_not() {
        for waits in [Duration::ZERO, EVERY / 2, EVERY, EVERY * 7 / 2] {
            let taking = Arc::<Taking>::default();
            let mut too_long = Box::pin(taking.too_long());
            // Taken in time, again and again.
            for _ in 0..10 {
                let answer = taking.not_taken();
                let early = tokio::time::timeout(ANSWER_TAKEN_WITHIN - EVERY / 10, &mut too_long);
                assert!(early.await.is_err(), "{waits:?}");
                drop(answer);
            }
            assert!(tokio::time::timeout(waits, &mut too_long).await.is_err());
            let made = tokio::time::Instant::now();
            let _one = taking.not_taken();
            too_long.await;
            let took = made.elapsed();
            assert!(took >= ANSWER_TAKEN_WITHIN, "{took:?}");
            assert!(took <= ANSWER_TAKEN_WITHIN + EVERY, "{took:?}");
        }
    }
}
