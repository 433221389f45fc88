//! Whose turn it is when a resource is free: whoever waits for it comes before whoever comes now.

use std::time::Duration;

use super::{Ask, Draft, Fold, Judged};
use crate::domain::decision::{Advice, Layer, Rule, Verdict};
use crate::domain::request::Purpose;
use crate::domain::token::Revision;
use crate::domain::waiter::Place;

/// A free resource that others wait for is asked for again after this: they take it one after the other.
const QUEUED_RETRY: Duration = Duration::from_secs(1);

/// Who waits for a resource, as far as its next grant needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Nobody.
    Nobody,
    /// This one comes first.
    First(Place),
    /// One of those who were entered together comes first, and it is not known which.
    OneOf {
        /// When they were entered.
        since: Revision,
        /// Who was thought to be the first, and waits no longer.
        gone: Option<Place>,
    },
    /// What comes first is no entry of ours. Nobody is turned away because of it.
    Untrusted,
}

/// What a commit says of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turn {
    /// Nothing: it takes no turn.
    #[default]
    None,
    /// Nobody must wait.
    OfNobody,
    /// This one must be first, and leaves the queue.
    OfFirst(Place),
    /// This one leaves the queue, wherever it stands.
    OutOfOrder(Place),
}

impl Ask {
    /// Whether it can be queued for a resource that is busy: it is about to take it or to move it, and holds no reservation of it.
    pub fn queues(&self) -> bool {
        match self {
            Self::Reserve(..) => true,
            Self::Transition(ask, _) => ask.reservation.is_none() && ask.purpose == Purpose::Commit,
            Self::Ride(..)
            | Self::Release(..)
            | Self::Complete(..)
            | Self::Resolve(..)
            | Self::Fence(_)
            | Self::Check(_)
            | Self::Lookup(_)
            | Self::Inspect
            | Self::Sweep(_) => false,
        }
    }

    /// Whether a caller of this that waits goes on waiting when it would be told so.
    pub fn waits_at(&self, verdict: Verdict) -> bool {
        match verdict {
            Verdict::InProgress => true,
            Verdict::Busy => self.queues(),
            Verdict::Granted
            | Verdict::Applied
            | Verdict::Replayed
            | Verdict::Interrupted
            | Verdict::Conflict
            | Verdict::Superseded
            | Verdict::OtherRound
            | Verdict::TooEarly
            | Verdict::Rejected
            | Verdict::Expired
            | Verdict::Fenced => false,
        }
    }
}

impl Fold<'_> {
    /// Judges the next request of a caller who has this place in the queue. `waits`: what it goes on waiting at is not told to it
    /// now, so that this is no answer to its delivery.
    pub fn judge_placed(&mut self, ask: &Ask, place: Option<Place>, waits: bool) -> Judged {
        self.place = place;
        self.caller_waits = waits;
        let judged = self.judge(ask);
        self.caller_waits = false;
        self.place = None;
        judged
    }

    /// Why a request that would take the free resource must not do so yet.
    pub(super) fn comes_later(&self, instead: Option<Advice>) -> Option<Judged> {
        if self.turn != Turn::None {
            // Somebody takes a turn in this very commit; who comes next is seen after it.
            return Some(Judged::Later);
        }
        if self.its_turn().is_some() {
            return None;
        }
        let text = "the resource is free, but others wait for it and come first";
        let draft = Draft::new(Verdict::Busy, Layer::Fence, Rule::Queued, text)
            .retry_after(QUEUED_RETRY)
            .advising(instead);
        Some(Judged::Answered(Box::new(self.showing(draft))))
    }

    /// What a grant to the request that is judged says of the queue. `None`: it is somebody else's turn.
    ///
    /// As long as the queue was not looked at, nobody is believed to wait, and whoever has a place is believed to be first: who
    /// was woken is. The commit shows whether that is right.
    fn its_turn(&self) -> Option<Turn> {
        match (self.standing.queue(), self.place) {
            (None | Some(Queue::Nobody), None) => Some(Turn::OfNobody),
            // Its caller may have left, and nothing must be granted to whoever did. If its place was lost, it gets another.
            (Some(Queue::Nobody), Some(_)) if self.caller_waits => None,
            (Some(Queue::Nobody), Some(_)) => Some(Turn::OfNobody),
            (None, Some(place)) => Some(Turn::OfFirst(place)),
            (Some(Queue::First(first)), Some(place)) if first == place => {
                Some(Turn::OfFirst(place))
            }
            // It may well be the first; if it is not, the commit shows who is.
            (Some(Queue::OneOf { since, gone }), Some(place))
                if place.since == since && gone != Some(place) =>
            {
                Some(Turn::OfFirst(place))
            }
            (Some(Queue::First(_) | Queue::OneOf { .. }), Some(_) | None) => None,
            (Some(Queue::Untrusted), Some(place)) => Some(Turn::OutOfOrder(place)),
            (Some(Queue::Untrusted), None) => Some(Turn::None),
        }
    }

    /// A grant takes the turn of whoever it is for, which was asked for before.
    pub(super) fn take_turn(&mut self) {
        let turn = self.its_turn();
        self.turn = turn.expect("nothing is granted to one whose turn it is not");
    }

    /// A Transition that has no reservation needs the resource only for this commit. One that has just come is judged at once;
    /// one that was queued keeps to the order among those who wait, as long as it waits.
    pub(super) fn move_comes_later(&self, instead: Option<Advice>) -> Option<Judged> {
        self.place?;
        if self.turn == Turn::None && !self.caller_waits {
            return None;
        }
        self.comes_later(instead)
    }

    /// A move that was queued for leaves the queue.
    pub(super) fn leave_by_move(&mut self) {
        let Some(place) = self.place else { return };
        self.turn = match self.its_turn() {
            Some(Turn::OfFirst(place)) if self.caller_waits => Turn::OfFirst(place),
            Some(Turn::OfFirst(_) | Turn::OutOfOrder(_) | Turn::OfNobody | Turn::None) | None => {
                Turn::OutOfOrder(place)
            }
        };
    }
}
