//! What the caller of a Hold has still to be told: of each reservation the newest, so that a caller who does not read costs no
//! more than one who does.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::domain::decision::{Decision, Grant};
use crate::domain::ids::ReservationId;

/// What has become of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldNews {
    /// It was renewed.
    Renewed(Grant),
    /// A renewal has failed, and is tried again. `safe_for` is what the last one left.
    Expiring(Grant),
    /// It is over, or must be taken to be.
    Lost(Box<Decision>),
}

/// News of one reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which.
    pub reservation: ReservationId,
    /// What.
    pub news: HoldNews,
}

/// What is to be told of each reservation of a stream.
#[derive(Debug)]
pub(super) struct Mailbox {
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Debug)]
struct Inner {
    slots: Vec<Slot>,
    /// Those with news, the oldest first.
    order: VecDeque<usize>,
    /// How many are not lost.
    live: usize,
}

#[derive(Debug)]
struct Slot {
    reservation: ReservationId,
    news: Option<HoldNews>,
    over: bool,
}

impl Mailbox {
    pub(super) fn new(reservations: impl IntoIterator<Item = ReservationId>) -> Self {
        let slot = |reservation| Slot {
            reservation,
            news: None,
            over: false,
        };
        let slots: Vec<_> = reservations.into_iter().map(slot).collect();
        Self {
            inner: Mutex::new(Inner {
                live: slots.len(),
                slots,
                order: VecDeque::new(),
            }),
            changed: Notify::new(),
        }
    }

    /// Puts news in the place of older ones. After a loss nothing more is told of a reservation.
    pub(super) fn put(&self, slot: usize, news: HoldNews) {
        let mut inner = self.lock();
        let Inner { slots, order, live } = &mut *inner;
        let Some(place) = slots.get_mut(slot).filter(|place| !place.over) else {
            return;
        };
        if matches!(news, HoldNews::Lost(_)) {
            place.over = true;
            *live -= 1;
        }
        if place.news.replace(news).is_none() {
            order.push_back(slot);
        }
        drop(inner);
        self.changed.notify_one();
    }

    /// The next news; waits for some. `None`: all reservations are lost, and that was told.
    pub(super) async fn next(&self) -> Option<Held> {
        loop {
            {
                let mut inner = self.lock();
                let Inner { slots, order, live } = &mut *inner;
                let first = order.pop_front();
                let first = first.and_then(|slot| slots.get_mut(slot));
                if let Some((slot, news)) =
                    first.and_then(|slot| slot.news.take().map(|news| (slot, news)))
                {
                    return Some(Held {
                        reservation: slot.reservation.clone(),
                        news,
                    });
                }
                if *live == 0 {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;

    use super::*;
    use crate::domain::decision::{Layer, Rule, Verdict};
    use crate::domain::ids::{Kind, Nonce, ResourceId};
    use crate::domain::request::Ttl;
    use crate::domain::token::FencingToken;

    fn id(name: &str) -> ReservationId {
        let resource = ResourceId::new(Kind::parse("seat").unwrap(), name).unwrap();
        ReservationId::new(resource, Nonce::from_bytes([7; 16]))
    }

    fn grant(name: &str, seconds: u64) -> Grant {
        Grant {
            id: id(name),
            token: FencingToken::shown(7).unwrap(),
            ttl: Ttl::parse(None).unwrap(),
            safe_for: Duration::from_secs(seconds),
            attempt: 0,
        }
    }

    fn lost() -> HoldNews {
        HoldNews::Lost(Box::new(super::super::ran_out()))
    }

    fn told(mailbox: &Mailbox) -> Option<Option<(String, HoldNews)>> {
        let next = mailbox.next().now_or_never();
        next.map(|held| held.map(|held| (held.reservation.resource().id().to_owned(), held.news)))
    }

    #[test]
    fn a_caller_who_reads_late_gets_the_newest_of_each_reservation_and_no_more() {
        let mailbox = Mailbox::new([id("a"), id("b")]);
        for seconds in 1..1_000 {
            mailbox.put(0, HoldNews::Renewed(grant("a", seconds)));
            mailbox.put(1, HoldNews::Expiring(grant("b", seconds)));
        }
        mailbox.put(1, HoldNews::Renewed(grant("b", 2_000)));
        let first = told(&mailbox).unwrap().unwrap();
        assert_eq!(first, ("a".to_owned(), HoldNews::Renewed(grant("a", 999))));
        let second = told(&mailbox).unwrap().unwrap();
        assert_eq!(
            second,
            ("b".to_owned(), HoldNews::Renewed(grant("b", 2_000)))
        );
        assert_eq!(told(&mailbox), None, "nothing more is kept");
    }

    #[test]
    fn a_loss_is_told_whatever_comes_after_it_and_the_last_one_ends_the_news() {
        let mailbox = Mailbox::new([id("a"), id("b")]);
        mailbox.put(0, HoldNews::Renewed(grant("a", 1)));
        mailbox.put(0, lost());
        mailbox.put(0, HoldNews::Renewed(grant("a", 2)));
        let first = told(&mailbox).unwrap().unwrap();
        assert_eq!(first, ("a".to_owned(), lost()));
        let HoldNews::Lost(decision) = first.1 else {
            unreachable!("compared above");
        };
        assert_eq!(
            (decision.verdict, decision.layer, decision.rule),
            (Verdict::Fenced, Layer::Fence, Rule::Lost)
        );
        assert_eq!(told(&mailbox), None, "the other one is still held");
        mailbox.put(1, lost());
        assert!(matches!(told(&mailbox), Some(Some(_))));
        assert_eq!(told(&mailbox), Some(None));
    }
}
