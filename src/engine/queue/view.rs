//! What one sidecar sees of a resource that callers of its own wait for: who waits, and whether the resource is free.
//!
//! The two are followed apart, and either may come later than the other. A grant takes an entry out of the queue in the same
//! commit, so whoever has left the queue may hold the resource: it counts as free only if that is known of a later moment. Whoever
//! waited to move the resource needed it only for that commit, and holds nothing.

use std::collections::{BTreeSet, HashMap};

use crate::domain::token::Revision;
use crate::domain::waiter::{Place, WaiterName, WaitingCall};
use crate::store::{QueueChange, QueueNews, QueueNow, ReservationNews, SeenQueue};

/// Who is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// This one.
    Exactly(Place),
    /// The first of those who were entered then.
    OfThose(Revision),
}

/// What is seen.
#[derive(Debug, Default)]
pub(super) struct View {
    waiting: BTreeSet<Place>,
    /// Since when, and whether it may hold the resource once it has left.
    known: HashMap<WaiterName, (Revision, bool)>,
    reservation: Option<ReservationNews>,
    /// When somebody left the queue last who may hold the resource since.
    left: Option<Revision>,
    /// Who was first when somebody looked, after everything that was heard.
    looked: Option<SeenFirst>,
    /// Counts what was new.
    changes: u64,
}

/// Whom a look has found first.
#[derive(Clone, Copy, Debug)]
struct SeenFirst(Option<Revision>);

impl View {
    /// Takes over what is new in the queue.
    pub(super) fn queue(&mut self, news: QueueNews) {
        self.changes += 1;
        self.looked = None;
        match news {
            QueueNews::All(all) => {
                let known = all.iter();
                let known = known.map(|(place, call)| (place.name, (place.since, takes_it(*call))));
                self.known = known.collect();
                self.waiting = all.into_iter().map(|(place, _)| place).collect();
            }
            QueueNews::Changes(changes) => {
                for (name, change) in changes {
                    self.change(name, change);
                }
            }
        }
    }

    fn change(&mut self, name: WaiterName, change: QueueChange) {
        match change {
            QueueChange::Entered(since, call) => {
                self.known.insert(name, (since, takes_it(call)));
                self.waiting.insert(Place { since, name });
            }
            QueueChange::Left(at) => {
                let known = self.known.remove(&name);
                if let Some((since, _)) = known {
                    self.waiting.remove(&Place { since, name });
                }
                // Of one who was never heard of nobody knows.
                if known.is_none_or(|(_, may_hold)| may_hold) {
                    self.left = self.left.max(Some(at));
                }
            }
        }
    }

    /// Takes over what is new of the reservation.
    pub(super) fn reservation(&mut self, news: ReservationNews) {
        self.changes += 1;
        if self.reservation.is_none_or(|known| known.at <= news.at) {
            self.reservation = Some(news);
        }
    }

    /// Takes over what a look has found.
    pub(super) fn look(&mut self, now: &QueueNow) {
        self.reservation(ReservationNews {
            held: now.held,
            at: now.at,
        });
        self.looked = Some(SeenFirst(match now.first {
            SeenQueue::First(Place { since, .. }) | SeenQueue::OneOf { since, .. } => Some(since),
            // Whoever waits here comes first for all that is known.
            SeenQueue::Untrusted(_) => self.waiting.first().map(|place| place.since),
            SeenQueue::Nobody => None,
        }));
    }

    /// Whether the resource seems free, but somebody has left the queue since that was known, perhaps to hold it.
    pub(super) fn in_doubt(&self) -> bool {
        self.reservation
            .is_some_and(|known| !known.held && self.left > Some(known.at))
    }

    /// Who is to be handed the resource. `None`: it is held, or nobody waits, or it is not known.
    pub(super) fn turn(&self) -> Option<First> {
        let free = self.reservation.is_some_and(|known| !known.held);
        if !free || self.in_doubt() {
            return None;
        }
        match self.looked {
            Some(SeenFirst(first)) => first.map(First::OfThose),
            None => self.waiting.first().copied().map(First::Exactly),
        }
    }

    /// Whoever was found first by a look has been woken; who comes next a watch tells, or the next look. That the resource was free
    /// stays known: whoever was woken may leave it so, and then no news of it come any more.
    pub(super) fn handed_on(&mut self) {
        self.looked = None;
    }

    /// These are about to leave the queue, and hold nothing.
    pub(super) fn leave_empty_handed(&mut self, names: impl IntoIterator<Item = WaiterName>) {
        for name in names {
            if let Some((_, may_hold)) = self.known.get_mut(&name) {
                *may_hold = false;
            }
        }
    }

    /// Counts what was new.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }
}

/// Whether one who waits for this holds the resource once it has had its turn.
fn takes_it(call: WaitingCall) -> bool {
    match call {
        WaitingCall::Reserve => true,
        WaitingCall::Transition => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::Nonce;

    fn at(revision: i64) -> Revision {
        Revision::from_etcd(revision).unwrap()
    }

    fn name(arrival: u64) -> WaiterName {
        let nonce = Nonce::from_bytes([0; 16]);
        WaiterName { arrival, nonce }
    }

    fn place(since: i64, arrival: u64) -> Place {
        let (since, name) = (at(since), name(arrival));
        Place { since, name }
    }

    fn reservation(view: &mut View, held: bool, revision: i64) {
        let at = at(revision);
        view.reservation(ReservationNews { held, at });
    }

    fn leaves(view: &mut View, arrival: u64, revision: i64) {
        let left = QueueChange::Left(at(revision));
        view.queue(QueueNews::Changes(vec![(name(arrival), left)]));
    }

    /// Held since 10, and three wait.
    fn held() -> View {
        let mut view = View::default();
        let all = [place(12, 3), place(11, 2), place(11, 1)];
        let all = all.map(|place| (place, WaitingCall::Reserve));
        view.queue(QueueNews::All(all.to_vec()));
        reservation(&mut view, true, 10);
        assert_eq!(view.turn(), None);
        view
    }

    #[test]
    fn a_free_resource_is_for_whoever_was_entered_first() {
        let mut view = held();
        reservation(&mut view, false, 20);
        assert_eq!(view.turn(), Some(First::Exactly(place(11, 1))));
        let entered = QueueChange::Entered(at(21), WaitingCall::Reserve);
        view.queue(QueueNews::Changes(vec![(name(0), entered)]));
        assert_eq!(view.turn(), Some(First::Exactly(place(11, 1))));
    }

    #[test]
    fn nobody_is_woken_between_the_grant_of_the_first_and_the_news_of_it() {
        for grant_heard_first in [false, true] {
            let mut view = held();
            if !grant_heard_first {
                reservation(&mut view, false, 20);
            }
            leaves(&mut view, 1, 21);
            assert_eq!(view.turn(), None);
            // The release comes late, after the news of who left the queue by the grant that followed it.
            reservation(&mut view, false, 20);
            assert_eq!(view.turn(), None);
            assert!(view.in_doubt());
            reservation(&mut view, true, 21);
            assert!(!view.in_doubt());
            assert_eq!(view.turn(), None);
        }
    }

    #[test]
    fn whoever_left_while_the_resource_was_held_casts_no_doubt_on_its_end() {
        let mut view = held();
        leaves(&mut view, 1, 15);
        reservation(&mut view, false, 20);
        assert_eq!(view.turn(), Some(First::Exactly(place(11, 2))));
    }

    #[test]
    fn whoever_has_moved_the_resource_holds_nothing() {
        let mut view = held();
        let moves = QueueChange::Entered(at(13), WaitingCall::Transition);
        view.queue(QueueNews::Changes(vec![(name(4), moves)]));
        reservation(&mut view, false, 20);
        leaves(&mut view, 4, 21);
        assert!(!view.in_doubt());
        assert_eq!(view.turn(), Some(First::Exactly(place(11, 1))));
        // Of one who was never heard of nobody knows what it wanted.
        leaves(&mut view, 4, 22);
        assert!(view.in_doubt());
    }

    #[test]
    fn a_look_settles_what_is_in_doubt() {
        let mut view = held();
        reservation(&mut view, false, 20);
        leaves(&mut view, 1, 21);
        let mut now = QueueNow {
            held: true,
            first: SeenQueue::First(place(11, 2)),
            at: at(22),
        };
        view.look(&now);
        assert_eq!((view.in_doubt(), view.turn()), (false, None));
        now.held = false;
        now.at = at(23);
        view.look(&now);
        assert_eq!(view.turn(), Some(First::OfThose(at(11))));
        view.handed_on();
        // Whom the watch tells to be the next is told again; `Lines` wakes nobody twice by the same news.
        assert_eq!(view.turn(), Some(First::Exactly(place(11, 2))));
        leaves(&mut view, 2, 24);
        assert!(view.in_doubt(), "whoever was woken may hold it now");
        assert_eq!(view.turn(), None);
    }

    #[test]
    fn a_move_that_a_look_has_woken_is_followed_by_the_next_at_once() {
        let mut view = View::default();
        let all = [place(11, 1), place(12, 2)];
        let all = all.map(|place| (place, WaitingCall::Transition));
        view.queue(QueueNews::All(all.to_vec()));
        view.look(&QueueNow {
            held: false,
            first: SeenQueue::First(place(11, 1)),
            at: at(20),
        });
        assert_eq!(view.turn(), Some(First::OfThose(at(11))));
        view.handed_on();
        leaves(&mut view, 1, 21);
        assert_eq!(view.turn(), Some(First::Exactly(place(12, 2))));
    }

    #[test]
    fn whoever_is_known_to_have_left_empty_handed_casts_no_doubt() {
        let mut view = held();
        reservation(&mut view, false, 20);
        view.leave_empty_handed([name(1), name(9)]);
        leaves(&mut view, 1, 21);
        assert!(!view.in_doubt());
        assert_eq!(view.turn(), Some(First::Exactly(place(11, 2))));
        // It is said of nobody else.
        leaves(&mut view, 2, 22);
        assert!(view.in_doubt());
    }
}
