//! What a commit says of the queue, and how it is settled when its reply is lost.
//!
//! Of all guards only that on the queue can fail and hold again while the record stays as it is: others waited, and have left.
//! Were it to fail after an unknown outcome, the commit before could still arrive then, and grant what was refused meanwhile. So
//! that outcome stays unsettled, and what is committed next puts the record, whatever it comes to; after that nothing arrives any
//! more that rests on its revision before.

use tracing::error;

use super::Round;
use crate::domain::judge::{Queue, Turn};
use crate::domain::token::Revision;
use crate::domain::waiter::WaiterName;
use crate::engine::lane::Shared;
use crate::store::{QueueGuard, Seen, SeenQueue};

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

/// Whether a commit of a round may still arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct Unsettled {
    may_arrive: bool,
    /// Whether one that may has a guard on the queue. Those that were sent after it need not have one.
    rests_on_queue: bool,
}

impl Unsettled {
    /// Whether one may.
    pub(in crate::engine) fn is(self) -> bool {
        self.may_arrive
    }

    /// The reply to this one was lost.
    pub(in crate::engine) fn lost(&mut self, queue: QueueGuard) {
        self.may_arrive = true;
        self.rests_on_queue |= queue != QueueGuard::None;
    }

    /// None may: one went through that put the record, or wrote what the others rest on.
    pub(in crate::engine) fn settle(&mut self) {
        *self = Self::default();
    }

    /// One was overtaken. All that are unsettled rest on the same record, so if that has changed none of them is ever applied; and
    /// else, unless one has a guard that may hold again.
    pub(in crate::engine) fn overtaken(&mut self, judged: Option<Revision>, seen: &Seen) {
        let record = seen.record.as_ref().map(|(_, revision)| *revision);
        if !self.rests_on_queue || record != judged {
            self.settle();
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

impl Shared {
    /// Who waits, as the judgement sees it.
    pub(in crate::engine) fn trusted(&self, seen: SeenQueue) -> Queue {
        match seen {
            SeenQueue::Nobody => Queue::Nobody,
            SeenQueue::First(place) => Queue::First(place),
            SeenQueue::OneOf { since, gone } => Queue::OneOf { since, gone },
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::record::Record;

    fn at(revision: i64) -> Option<Revision> {
        Revision::from_etcd(revision)
    }

    /// A resource whose record was last changed then.
    fn seen(revision: i64) -> Seen {
        let record = at(revision).map(|at| (Record::default(), at));
        Seen {
            record,
            ..Seen::default()
        }
    }

    #[test]
    fn a_commit_that_rests_on_the_queue_stays_unsettled_whatever_overtakes_those_after_it() {
        let mut unsettled = Unsettled::default();
        unsettled.lost(QueueGuard::NobodyWaits);
        // Overtaken by the queue; then, without a guard on that, by another machine.
        unsettled.overtaken(at(5), &seen(5));
        unsettled.overtaken(at(5), &seen(5));
        assert!(unsettled.is());
        // Lost too, and overtaken.
        unsettled.lost(QueueGuard::None);
        unsettled.overtaken(at(5), &seen(5));
        assert!(unsettled.is());
        unsettled.overtaken(at(5), &seen(6));
        assert!(!unsettled.is(), "nothing that rests on 5 is applied");
        unsettled.lost(QueueGuard::NobodyWaits);
        unsettled.settle();
        unsettled.lost(QueueGuard::None);
        unsettled.overtaken(at(6), &seen(6));
        assert!(!unsettled.is(), "what was settled counts no more");
    }

    #[test]
    fn a_guard_other_than_that_on_the_queue_never_holds_again() {
        let mut unsettled = Unsettled::default();
        unsettled.lost(QueueGuard::None);
        assert!(unsettled.is());
        unsettled.overtaken(None, &Seen::default());
        assert!(!unsettled.is());
    }
}
