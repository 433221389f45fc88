//! Reserve, Release, and the check behind Renew.

use std::time::Duration;

use super::{Draft, Fold, Judged, ReservationChange};
use crate::domain::claim::{PAST_CLAIMS_MAX, PastClaim};
use crate::domain::decision::{Layer, Rule, Verdict};
use crate::domain::ids::{Nonce, RequestId, ReservationId};
use crate::domain::outcome::StoredResult;
use crate::domain::record::{LeaseId, PAST_ROUNDS_MAX, PastRound, Record, Round, RoundEnd};
use crate::domain::request::{Left, Reserve, Ttl};
use crate::domain::together::Company;

/// A busy resource is asked for again after this part of the reservation's TTL,
const BUSY_RETRY_PART: u32 = 10;
/// but no sooner than this
pub(super) const BUSY_RETRY_MIN: Duration = Duration::from_millis(100);
/// and no later than this.
const BUSY_RETRY_MAX: Duration = Duration::from_secs(2);

/// A request is one attempt at the same resources, however often it is sent: the field that says otherwise, and why that is no use.
pub(super) const OTHER_RESOURCES: (&str, &str) = (
    "request_id",
    "was granted a reservation of other resources, which is live; a new attempt needs a new one",
);

/// When to ask again for a resource that is held.
pub(super) fn busy_retry(ttl: Ttl) -> Duration {
    (ttl.as_duration() / BUSY_RETRY_PART).clamp(BUSY_RETRY_MIN, BUSY_RETRY_MAX)
}

impl Fold<'_> {
    pub(super) fn reserve(
        &mut self,
        ask: &Reserve,
        nonce: Nonce,
        lease: Option<LeaseId>,
    ) -> Judged {
        if let Some(intent) = &ask.intent {
            return self.claim(ask, intent, nonce, lease);
        }
        if let Some((round, _)) = self.live_round() {
            let draft = if round.nonce == nonce {
                // Ours: the commit went through and only its reply was lost.
                granted_now()
            } else if round.request == ask.request && round.company != Company::Alone {
                let (field, reason) = OTHER_RESOURCES;
                return Judged::Unfit { field, reason };
            } else if round.request == ask.request {
                let text = "this very request was granted before; its reservation is renewed";
                Draft::new(Verdict::Granted, Layer::Replay, Rule::SameRequest, text)
            } else {
                return answered(self.showing(self.busy(round)));
            };
            return answered(self.holding(self.showing(draft)));
        }
        if let Some(over) = self.request_over(ask.request, nonce) {
            return answered(over);
        }
        if self.reservation == ReservationChange::End {
            // Overwriting the key would keep its creation, and the new round would get the old one's token.
            return Judged::Later;
        }
        if let Some(later) = self.comes_later(None) {
            return later;
        }
        let Some(lease) = lease else {
            return Judged::Unleased;
        };
        self.begin_round(ask, nonce, lease);
        answered(self.holding(self.showing(granted_now())))
    }

    /// The round that this request was granted is over.
    pub(super) fn request_over(&self, request: RequestId, nonce: Nonce) -> Option<Draft> {
        let last = self.record.round.as_ref();
        let by_request = last.filter(|round| round.request == request);
        // A round is known by its name too: a grant whose reply was lost may have ended, and others after it. Its name must
        // not be given to a second round.
        let end = by_request
            .and_then(|round| round.over)
            .or_else(|| self.record.end_of(nonce))?;
        let text = "the reservation of this request is over; a new attempt needs a new request_id";
        let draft = Draft::new(Verdict::Fenced, Layer::Fence, rule_of(Some(end)), text);
        Some(self.showing(draft))
    }

    /// Another round holds the resource.
    pub(super) fn busy(&self, round: &Round) -> Draft {
        let text = "another reservation holds the resource";
        Draft::new(Verdict::Busy, Layer::Fence, Rule::Held, text).retry_after(busy_retry(round.ttl))
    }

    pub(super) fn release(
        &mut self,
        reservation: &ReservationId,
        left: Left,
        nonce: Nonce,
    ) -> Judged {
        if self.holds(reservation) {
            if reservation.is_of_several() {
                return Judged::Unfit {
                    field: "reservation_id",
                    reason: "is that of several resources, which are released together",
                };
            }
            let full = left == Left::NothingDone && self.gives_back_enough();
            if full || self.reservation != ReservationChange::Keep {
                return Judged::Later;
            }
            let draft = self.end_round(ended_now(), nonce, left);
            return answered(self.showing(draft));
        }
        answered(self.released_before(reservation, nonce))
    }

    /// The round that is to be released is over.
    pub(super) fn released_before(&mut self, reservation: &ReservationId, nonce: Nonce) -> Draft {
        let draft = match self.record.end_of(reservation.round()) {
            // Ours: the commit went through and only its reply was lost.
            Some(RoundEnd::Released(by)) if by == nonce.mark() => {
                let incident = self.left_behind(reservation.round(), StoredResult::default());
                ended_now().incident(incident)
            }
            end => {
                let rule = rule_of(end);
                Draft::new(Verdict::Replayed, Layer::Replay, rule, over_text(rule))
            }
        };
        self.showing(draft)
    }

    pub(super) fn check(&mut self, reservation: &ReservationId) -> Judged {
        if self.holds(reservation) {
            if self.reservation != ReservationChange::Keep {
                return Judged::Later;
            }
            let text = "the reservation was renewed";
            let draft = Draft::new(Verdict::Granted, Layer::Fence, Rule::Renewed, text);
            return answered(self.holding(self.showing(draft)));
        }
        answered(self.showing(self.round_over(reservation)))
    }

    /// The round that the caller names does not hold the resource any more.
    pub(super) fn round_over(&self, reservation: &ReservationId) -> Draft {
        let end = self.record.end_of(reservation.round());
        if end == Some(RoundEnd::Lost) && self.is_of_another_timeline(reservation.round()) {
            let text = "the reservation was granted in an older timeline; the start of a new one has ended it, if its time was not over \
                        before";
            return Draft::new(Verdict::Fenced, Layer::Fence, Rule::Lost, text);
        }
        let rule = rule_of(end);
        Draft::new(Verdict::Fenced, Layer::Fence, rule, over_text(rule))
    }

    /// Whether the last round is this one, and another timeline is in force than when it was granted.
    fn is_of_another_timeline(&self, round: Nonce) -> bool {
        let last = self.record.round.as_ref();
        last.is_some_and(|last| last.nonce == round && last.base != self.timeline.base)
    }
}

fn rule_of(end: Option<RoundEnd>) -> Rule {
    match end {
        Some(RoundEnd::Released(_)) => Rule::Released,
        Some(RoundEnd::Lost) => Rule::Lost,
        None => Rule::Over,
    }
}

fn over_text(rule: Rule) -> &'static str {
    if rule == Rule::Released {
        "the reservation was already released"
    } else if rule == Rule::Lost {
        "the reservation's time had run out"
    } else {
        "the reservation is over"
    }
}

fn granted_now() -> Draft {
    Draft::new(
        Verdict::Granted,
        Layer::Result,
        Rule::WasFree,
        "the resource was free and is now reserved",
    )
}

pub(super) fn ended_now() -> Draft {
    Draft::new(
        Verdict::Applied,
        Layer::Result,
        Rule::Ended,
        "the reservation was released",
    )
}

fn answered(draft: Draft) -> Judged {
    Judged::Answered(Box::new(draft))
}

impl Record {
    /// Begins a round. The one before it is remembered for a while, so that its late release still gets the right answer.
    pub(super) fn open_round(&mut self, ask: &Reserve, nonce: Nonce, lease: LeaseId, base: u64) {
        let round = Round {
            nonce,
            request: ask.request,
            holder: ask.holder.clone(),
            ttl: ask.ttl,
            lease,
            base,
            granted: None,
            over: None,
            claimed: None,
            claims: 0,
            company: Company::Alone,
        };
        if let Some(before) = self.round.replace(round) {
            let end = before
                .over
                .expect("a round begins only when the one before it is over");
            if self.past_rounds.len() >= PAST_ROUNDS_MAX {
                self.past_rounds.remove(0);
            }
            self.past_rounds.push(PastRound {
                nonce: before.nonce,
                end,
            });
            if let (1, Some(operation)) = (before.claims, before.claimed) {
                self.forget_past_claims(PAST_CLAIMS_MAX - 1);
                self.past_claims.push(PastClaim {
                    round: before.nonce,
                    operation,
                });
            }
        }
    }

    /// How a round ended. `None`: it is not known, so it is older than what is remembered.
    fn end_of(&self, round: Nonce) -> Option<RoundEnd> {
        match self.round.as_ref() {
            Some(last) if last.nonce == round => last.over,
            Some(_) | None => self
                .past_rounds
                .iter()
                .rev()
                .find(|past| past.nonce == round)
                .map(|past| past.end),
        }
    }
}
