//! What `hold` knows of its reservations: those that are not lost, and until when they certainly last.

use std::time::Duration;

use super::trouble::plain;
use crate::engine::Boottime;
use crate::proto::v1::hold_response::News;
use crate::proto::v1::{HoldResponse, Reservation};

/// Those that are held.
#[derive(Debug)]
pub(super) struct Held {
    /// In the order given. Without a bound: nothing was told of it yet.
    reservations: Vec<(String, Option<Boottime>)>,
    /// Those of which a renewal failed, and none was confirmed since.
    expiring: Vec<String>,
    release_on_close: bool,
}

/// How news look beside what was told before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// The first renewal of a reservation.
    First,
    /// One more renewal, or that one failed again.
    Usual,
    /// Anything else.
    Other,
}

impl Held {
    /// Those that were named.
    pub(super) fn new(reservations: &[String], release_on_close: bool) -> Self {
        let reservations = reservations.iter().map(|id| (id.clone(), None));
        Self {
            reservations: reservations.collect(),
            expiring: Vec::new(),
            release_on_close,
        }
    }

    /// Notes what was told on a stream that was opened then.
    pub(super) fn hear(&mut self, response: &HoldResponse, opened: Boottime) -> Said {
        let id = &response.reservation_id;
        let expiring = self.expiring.contains(id);
        match &response.news {
            Some(News::Renewed(reservation)) => {
                self.expiring.retain(|held| held != id);
                let bound = safe_for(reservation).map(|safe| opened.plus(safe));
                let mut all = self.reservations.iter_mut();
                let Some((_, last)) = all.find(|(held, _)| held == id) else {
                    return Said::Other;
                };
                let first = last.is_none();
                *last = bound.max(*last);
                match (first, expiring) {
                    (true, _) => Said::First,
                    (false, true) => Said::Other,
                    (false, false) => Said::Usual,
                }
            }
            Some(News::Lost(_)) => {
                self.reservations.retain(|(held, _)| held != id);
                Said::Other
            }
            // What was known before counts.
            Some(News::Expiring(_)) if expiring => Said::Usual,
            Some(News::Expiring(_)) => {
                self.expiring.push(id.clone());
                Said::Other
            }
            None => Said::Other,
        }
    }

    /// When the first of them ends, as far as is known.
    pub(super) fn first_bound(&self) -> Option<Boottime> {
        let bounds = self.reservations.iter();
        bounds.filter_map(|(_, bound)| *bound).min()
    }

    /// Those whose time has passed unheard; they are not held any more.
    pub(super) fn take_over(&mut self) -> Vec<String> {
        let over = |bound: &Option<Boottime>| bound.is_some_and(|bound| bound.left().is_zero());
        let (lost, held) = std::mem::take(&mut self.reservations)
            .into_iter()
            .partition(|(_, bound)| over(bound));
        self.reservations = held;
        let lost: Vec<(String, Option<Boottime>)> = lost;
        lost.into_iter().map(|(id, _)| id).collect()
    }

    /// Whether all are lost.
    pub(super) fn is_empty(&self) -> bool {
        self.reservations.is_empty()
    }

    /// What becomes of them now that nobody renews them, and what to do.
    pub(super) fn told(&self) -> String {
        let mut told = String::new();
        for (id, bound) in &self.reservations {
            let id = plain(id);
            told.push_str(&match bound {
                _ if self.release_on_close => format!(
                    "\n{id} is released by the sidecar if that still can, and else runs out: take it as lost"
                ),
                Some(bound) if bound.left().is_zero() => format!("\n{id} is lost: its time is over"),
                Some(bound) => format!(
                    "\n{id} is not renewed any more; it is safe for {} from when this is printed",
                    humantime::format_duration(Duration::from_millis(
                        u64::try_from(bound.left().as_millis()).unwrap_or(u64::MAX)
                    ))
                ),
                None => format!(
                    "\n{id} is not renewed any more, and no renewal was heard of: what `reserve` answered counts"
                ),
            });
        }
        if !self.release_on_close && !self.is_empty() {
            told.push_str(
                "\nuntil then it can be held on, at this or another sidecar of the same etcd: `fencepost hold RESERVATION_ID`; past it, \
                 take it as lost",
            );
        }
        told
    }
}

fn safe_for(reservation: &Reservation) -> Option<Duration> {
    Duration::try_from(reservation.safe_for?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::Decision;

    fn news(id: &str, news: News) -> HoldResponse {
        HoldResponse {
            reservation_id: id.into(),
            news: Some(news),
        }
    }

    fn renewed(id: &str, safe: Duration) -> HoldResponse {
        let reservation = Reservation {
            safe_for: Some(safe.try_into().unwrap()),
            ..Reservation::default()
        };
        news(id, News::Renewed(reservation))
    }

    #[test]
    fn the_first_bound_counts_and_what_is_over_or_lost_is_held_no_more() {
        let mut held = Held::new(&["a".into(), "b".into(), "c".into()], false);
        assert_eq!(held.first_bound(), None);
        let now = Boottime::now();
        let hour = Duration::from_secs(3_600);
        held.hear(&renewed("a", hour), now);
        held.hear(&renewed("b", hour / 2), now);
        // It never becomes shorter by a message that comes late.
        held.hear(&renewed("b", hour / 4), now);
        assert_eq!(held.first_bound(), Some(now.plus(hour / 2)));
        assert!(held.take_over().is_empty());
        let told = held.told();
        assert!(
            told.contains("a is not renewed any more; it is safe for 59m 59s"),
            "{told}"
        );
        assert!(
            told.contains("c is not renewed any more, and no renewal was heard of"),
            "{told}"
        );
        held.hear(&news("b", News::Lost(Decision::default())), now);
        held.hear(&renewed("c", Duration::ZERO), now);
        assert_eq!(held.take_over(), ["c"]);
        assert!(!held.is_empty());
        held.hear(&news("a", News::Lost(Decision::default())), now);
        assert!(held.is_empty());
        assert_eq!(held.told(), "");
    }

    #[test]
    fn what_is_as_usual_is_told_from_what_is_not() {
        let mut held = Held::new(&["a".into(), "b".into()], false);
        let expiring = |id| news(id, News::Expiring(Reservation::default()));
        let minute = Duration::from_secs(60);
        let told = [
            (renewed("a", minute), Said::First),
            (renewed("b", minute), Said::First),
            (renewed("a", minute), Said::Usual),
            (expiring("a"), Said::Other),
            (expiring("a"), Said::Usual),
            (renewed("b", minute), Said::Usual),
            (renewed("a", minute), Said::Other),
            (renewed("a", minute), Said::Usual),
            (news("a", News::Lost(Decision::default())), Said::Other),
        ];
        for (news, said) in told {
            assert_eq!(held.hear(&news, Boottime::now()), said, "{news:?}");
        }
    }

    #[test]
    fn what_is_released_at_the_end_is_not_to_be_built_on() {
        let mut held = Held::new(&["a".into()], true);
        held.hear(&renewed("a", Duration::from_secs(60)), Boottime::now());
        let told = held.told();
        assert!(told.contains("take it as lost"), "{told}");
        assert!(!told.contains("fencepost hold"), "{told}");
    }
}
