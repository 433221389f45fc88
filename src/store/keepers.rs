//! The streams of keepalives.
//!
//! etcd serves a stream one keepalive at a time, and a member that does not lead asks the leader for each. So there are several
//! streams, and the more the more keepalives are under way: each goes over the one that has fewest, so that one that is held up is
//! left to itself. Whichever that is, a keepalive is matched with its own answer, and its TTL counts from before it was sent.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::failure::indeterminate;
use super::keep_alive::{Answer, KeepAlive, Wish};
use super::lone_keep_alive::Lone;
use super::session::Session;
use crate::domain::record::LeaseId;

/// Most streams for the leases of live reservations. A member that is 1 ms away from the leader needs 3 ms for each keepalive: so
/// many streams carry 10,000 a second over it, twice what 50,000 reservations of 30 s need.
const HELD_STREAMS_MAX: usize = 32;
/// One more is opened when each has so many keepalives under way.
const BUSY_FROM: usize = 8;
/// A stream may close, for want of use, just when it is chosen; so often another one is.
const CHOICES_MAX: usize = 4;

/// What a lease is kept alive for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseUse {
    /// It is kept ready for a later use.
    Ready,
    /// A live reservation hangs on it, and it has certainly not run out.
    Held {
        /// So much silence of its stream is too much: a part of its TTL, whatever is left of that.
        silence: Duration,
    },
    /// A reservation hangs on it, and whether it has run out is not known here. If it has, etcd answers nothing until it has ended
    /// it, so its keepalive must hold up no other.
    Unsure,
}

/// All streams.
#[derive(Debug)]
pub(super) struct Keepers {
    ready: Streams,
    held: Streams,
    unsure: Lone,
    call_limit: Duration,
}

impl Keepers {
    /// A stream is opened when it is first needed, and closed when it was not used for a while.
    pub(super) fn new(session: &Arc<Session>) -> Self {
        let streams = |most| Streams {
            session: Arc::clone(session),
            most,
            open: Mutex::default(),
        };
        Self {
            ready: streams(1),
            held: streams(HELD_STREAMS_MAX),
            unsure: Lone::new(Arc::clone(session)),
            call_limit: session.call_limit(),
        }
    }

    /// Sends a keepalive; its caller waits so long for the answer, and never longer than for any call.
    pub(super) async fn keep_alive(
        &self,
        lease: LeaseId,
        of: LeaseUse,
        patience: Duration,
    ) -> Answer {
        let patience = patience.min(self.call_limit);
        let wish = |silence| Wish {
            lease,
            silence,
            patience,
            deadline: Instant::now() + patience,
        };
        match of {
            LeaseUse::Ready => self.ready.keep_alive(wish(Duration::MAX)).await,
            LeaseUse::Held { silence } => self.held.keep_alive(wish(silence)).await,
            LeaseUse::Unsure => self.unsure.keep_alive(lease, patience).await,
        }
    }
}

/// Streams that take the same keepalives.
#[derive(Debug)]
struct Streams {
    session: Arc<Session>,
    most: usize,
    open: Mutex<Vec<Arc<KeepAlive>>>,
}

impl Streams {
    async fn keep_alive(&self, wish: Wish) -> Answer {
        for _ in 0..CHOICES_MAX {
            if let Some(answer) = self.choose().keep_alive(wish).await {
                return answer;
            }
        }
        Err(indeterminate("each stream of keepalives was just closed"))
    }

    /// The stream that has fewest under way; the first of several, so that those that are not needed fall idle.
    fn choose(&self) -> Arc<KeepAlive> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|stream| !stream.is_closed());
        let least = open.iter().min_by_key(|stream| stream.under_way());
        if let Some(least) = least
            && (least.under_way() < BUSY_FROM || open.len() >= self.most)
        {
            return Arc::clone(least);
        }
        let another = Arc::new(KeepAlive::start(Arc::clone(&self.session)));
        open.push(Arc::clone(&another));
        another
    }
}
