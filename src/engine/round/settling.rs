//! What a commit says of the queue, and how it is settled when its reply is lost.
//!
//! Of all guards only that on the queue can fail and hold again while the record stays as it is: others waited, and have left.
//! Were it to fail after an unknown outcome, the commit before could still arrive then, and grant what was refused meanwhile. So
//! that outcome stays unsettled, and what is committed next puts the record, whatever it comes to; after that nothing arrives any
//! more that rests on its revision before.

use tracing::error;

use super::Round;
use crate::domain::judge::{Queue, Turn};
use crate::domain::waiter::WaiterName;
use crate::engine::lane::Shared;
use crate::store::{Commit, QueueGuard, Seen, SeenQueue};

/// What must hold of the queue.
pub(in crate::engine) fn queue_guard(turn: Turn) -> QueueGuard {
    match turn {
        Turn::None | Turn::OutOfOrder(_) => QueueGuard::None,
        Turn::OfNobody => QueueGuard::NobodyWaits,
        Turn::OfFirst(place) => QueueGuard::First(place),
    }
}

/// Who leaves the queue.
pub(in crate::engine) fn leaves(turn: Turn) -> Option<WaiterName> {
    match turn {
        Turn::None | Turn::OfNobody => None,
        Turn::OfFirst(place) | Turn::OutOfOrder(place) => Some(place.name),
    }
}

/// Whether the guards of a commit that was just overtaken may hold again.
pub(in crate::engine) fn may_hold_again(commit: &Commit, seen: &Seen) -> bool {
    let record = seen.record.as_ref().map(|(_, revision)| *revision);
    commit.queue != QueueGuard::None && record == commit.seen
}

impl Shared {
    /// Who waits, as the judgement sees it.
    pub(in crate::engine) fn trusted(&self, seen: SeenQueue) -> Queue {
        match seen {
            SeenQueue::Nobody => Queue::Nobody,
            SeenQueue::First(place) => Queue::First(place),
            SeenQueue::Untrusted(entry) => {
                if let Some(unsaid) = self.corruption.speak() {
                    error!(
                        %entry, unsaid,
                        "an entry of a queue cannot be trusted; as long as it is the first, whoever comes is not kept behind those who wait"
                    );
                }
                Queue::Untrusted
            }
        }
    }
}

impl Round<'_> {
    /// A grant whose reply was lost may have been, and be over, and so many others after it that the record has forgotten it.
    /// It must not be granted again under its old name, which others may know: by it they would hold the new round.
    pub(super) fn rename_what_may_be_over(&mut self) {
        if let Some(standing) = &self.standing {
            for ticket in &mut self.tickets {
                ticket.rename_unless(|nonce| standing.names(nonce));
            }
        }
    }
}
