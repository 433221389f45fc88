//! Reserve with an intent: judged like a Transition, and if it may, the operation is claimed: its effect may run.
//!
//! The claim is stored in the commit of the grant, with the attempt counted, so that a worker that dies is counted too.

use super::interrupted::Condition;
use super::law::{Terms, read_under};
use super::transition::{Objection, Obstacle};
use super::{Draft, Fold, Judged, Known, ReservationChange, TokenRef};
use crate::domain::claim::{
    Claim, OPEN_BYTES_MAX, OPEN_OPERATIONS_MAX, OpenOperation, RETURNED_OPERATIONS_MAX, Seat,
};
use crate::domain::decision::{Layer, Rule, Verdict};
use crate::domain::ids::{Holder, Nonce, RequestId, ReservationId};
use crate::domain::outcome::StoredResult;
use crate::domain::record::{LeaseId, Raised};
use crate::domain::request::{Intent, Purpose, Reserve, Ride, Transition};

/// Under which round the claim is to be held.
#[derive(Clone, Copy, Debug)]
enum Under<'a> {
    /// A new one, on this lease, if it is taken already.
    New(&'a Reserve, Option<LeaseId>),
    /// One that the caller has.
    Held(&'a ReservationId),
}

/// A claim that is asked for.
#[derive(Debug)]
struct Wish<'a> {
    intent: &'a Intent,
    request: RequestId,
    nonce: Nonce,
    under: Under<'a>,
}

impl Fold<'_> {
    /// Reserve with an intent.
    pub(super) fn claim(
        &mut self,
        ask: &Reserve,
        intent: &Intent,
        nonce: Nonce,
        lease: Option<LeaseId>,
    ) -> Judged {
        self.claimed(&Wish {
            intent,
            request: ask.request,
            nonce,
            under: Under::New(ask, lease),
        })
    }

    /// Reserve with an intent, on a round that the caller has.
    pub(super) fn ride(&mut self, ask: &Ride, nonce: Nonce) -> Judged {
        self.claimed(&Wish {
            intent: &ask.intent,
            request: ask.request,
            nonce,
            under: Under::Held(&ask.reservation),
        })
    }

    fn claimed(&mut self, wish: &Wish<'_>) -> Judged {
        if let Under::Held(reservation) = wish.under
            && reservation.is_of_several()
        {
            return Judged::Unfit {
                field: "reservation_id",
                reason: "is that of several resources, under which nothing can be claimed: an operation belongs to one",
            };
        }
        // As a message it is the same as a Transition that brings no result and names no round.
        let message = Transition {
            resource: self.resource.clone(),
            intent: wish.intent.clone(),
            reservation: None,
            result: None,
            afterwards: None,
            outcome: None,
            sender: self.asker(wish).cloned(),
            purpose: Purpose::Commit,
        };
        let mut before = None;
        match self.known(&wish.intent.operation) {
            Known::Finished(done) => {
                return match self.comparable(&message, &done.digest, done.judged_as()) {
                    Ok(message) => self.repeat(&message, wish.nonce, *done),
                    Err(unlawful) => Judged::Unlawful(unlawful),
                };
            }
            Known::Open(open) => {
                let read = match self.comparable(&message, &open.intent.digest, open.judged_as()) {
                    Ok(read) => read,
                    Err(unlawful) => return Judged::Unlawful(unlawful),
                };
                if let Some(conflict) = self.differs_from_open(&read, &open) {
                    return conflict;
                }
                match self.condition(&open) {
                    Condition::Running => return self.claimed_already(wish, &open),
                    Condition::Asks => {
                        let draft = self.reported(&open);
                        return self.delivered_again(&open, draft);
                    }
                    Condition::Reruns | Condition::Returned => before = Some(*open),
                }
            }
            Known::Unknown => {}
        }
        // What is known to have died is not forgotten, however old it is.
        let remembered = before.as_ref().is_some_and(|open| !open.claim.returned);
        if let Some(made_ms) = wish.intent.made_ms
            && !remembered
            && self.too_old_now(made_ms)
        {
            return self.too_old(&message);
        }
        let terms = match self.terms(wish.intent) {
            Ok(terms) => terms,
            Err(unlawful) => return Judged::Unlawful(unlawful),
        };
        let read = match read_under(&message, terms.digest_rule()) {
            Ok(read) => read,
            Err(unlawful) => return Judged::Unlawful(unlawful),
        };
        if let Some(taken) = self.no_seat(wish, &terms) {
            return taken;
        }
        if let Some(waits) = self.waits(&wish.intent.operation, terms.changes()) {
            return answered(waits);
        }
        match self.allows(&terms) {
            Ok(()) => self.open_claim(wish, &read, &terms, before),
            Err(Obstacle::Objection(objection)) => {
                self.turned_away(&read, wish.nonce, &terms, objection)
            }
            Err(Obstacle::Limit(limit)) => limit,
        }
    }

    /// The operation's claim is live: it is this request's, or another's.
    fn claimed_already(&mut self, wish: &Wish<'_>, open: &OpenOperation) -> Judged {
        let draft = if open.claim.nonce == wish.nonce {
            // Ours: the commit went through and only its reply was lost.
            return answered(self.holding(self.showing(granted(open))));
        } else if open.claim.request == wish.request {
            let text = "this very request was granted the claim before; its reservation is renewed";
            Draft::new(Verdict::Granted, Layer::Replay, Rule::SameRequest, text)
        } else {
            let draft = self.in_progress(open);
            return self.delivered_again(open, draft);
        };
        let draft = self.holding(self.showing(draft));
        self.delivered_again(open, draft)
    }

    /// Who asks for the claim, and will hold it.
    fn asker<'b>(&'b self, wish: &Wish<'b>) -> Option<&'b Holder> {
        match wish.under {
            Under::New(ask, _) => ask.holder.as_ref(),
            Under::Held(reservation) => {
                let round = self.record.round.as_ref();
                let round = round.filter(|round| round.nonce == reservation.round());
                round.and_then(|round| round.holder.as_ref())
            }
        }
    }

    /// Why the claim cannot be held under the round that was asked for.
    fn no_seat(&self, wish: &Wish<'_>, terms: &Terms<'_>) -> Option<Judged> {
        // Whoever goes on waiting is not refused, by whichever call: a wait that is cut short ends with what was told on the way.
        let instead = terms.advice_if_held().filter(|_| !self.caller_waits);
        match wish.under {
            Under::New(ask, _) => {
                if let Some((round, _)) = self.live_round() {
                    let busy = self.busy(round).advising(instead);
                    return Some(answered(self.showing(busy)));
                }
                if let Some(over) = self.request_over(ask.request, wish.nonce) {
                    return Some(answered(over));
                }
                if self.reservation == ReservationChange::End {
                    // A release and the next grant are never one commit.
                    return Some(Judged::Later);
                }
                self.comes_later(instead)
            }
            Under::Held(reservation) if !self.holds(reservation) => {
                Some(answered(self.showing(self.round_over(reservation))))
            }
            Under::Held(reservation) => {
                if self.open_under(reservation.round()).is_some() {
                    return Some(answered(self.claim_open()));
                }
                // A round that was granted in this very commit has not been told to anybody. And one that carries a second claim
                // does not tell any more what the first was: so whoever completed that one is told first.
                let completes = self.standing.has_open_under(reservation.round());
                let waits = completes || self.reservation != ReservationChange::Keep;
                waits.then_some(Judged::Later)
            }
        }
    }

    fn open_claim(
        &mut self,
        wish: &Wish<'_>,
        message: &Transition,
        terms: &Terms<'_>,
        before: Option<OpenOperation>,
    ) -> Judged {
        let mut claim = Claim {
            nonce: wish.nonce,
            request: wish.request,
            round: wish.nonce,
            seat: Seat::Own,
            base: self.timeline.base,
            attempts: 1,
            time_ms: self.when.wall_ms,
            returned: false,
            raised: Raised::default(),
            resolved: None,
        };
        if let Some(before) = &before {
            claim.attempts = before.claim.attempts.saturating_add(1);
            claim.time_ms = before.claim.time_ms;
            claim.raised = before.claim.raised.without(Raised::INTERRUPTED);
            claim.resolved.clone_from(&before.claim.resolved);
        }
        if let Under::Held(reservation) = wish.under {
            claim.round = reservation.round();
            claim.seat = Seat::Ridden;
        }
        let rule = if terms.moves {
            Rule::Moved
        } else {
            Rule::RanOnce
        };
        let found = Objection::new(Verdict::Applied, rule, Layer::Result);
        // What it will be, if its effect succeeds.
        let finished = self.finished(message, wish.nonce, terms, found, StoredResult::default());
        let (intent, judged) = terms.for_claim(&message.intent, self.law.version());
        let open = OpenOperation {
            intent,
            judged,
            fields: finished.fields.clone(),
            claim,
        };
        if let Some(limit) = self.too_many_open(&open) {
            return limit;
        }
        match wish.under {
            Under::New(_, None) => return Judged::Unleased,
            Under::New(ask, Some(lease)) => self.begin_round(ask, wish.nonce, lease),
            Under::Held(_) => {}
        }
        if let Some(round) = self.record.round.as_mut() {
            round.claimed = Some(open.intent.operation.clone());
            round.claims = round.claims.saturating_add(1);
        }
        let draft = granted(&open).same_content_as(self.twin_of(&message.intent, &finished));
        self.bytes += open.size();
        self.close(&open.intent.operation);
        self.record.open.push(open.clone());
        self.record.forget_returned(RETURNED_OPERATIONS_MAX);
        self.changed = true;
        let draft = self.holding(self.showing(draft));
        if before.is_some() {
            return self.delivered_again(&open, draft);
        }
        answered(draft)
    }

    /// Whether one more open operation would be more than a record may hold. Those given back make room.
    fn too_many_open(&self, new: &OpenOperation) -> Option<Judged> {
        let others = self.record.open.iter();
        let others = others
            .filter(|open| open.intent.operation != new.intent.operation && !open.claim.returned);
        let (count, bytes) = others.fold((0, 0), |(count, bytes), open| {
            (count + 1, bytes + open.size())
        });
        if count >= OPEN_OPERATIONS_MAX {
            let what = "this resource has too many operations whose claims died: resolve them";
            return Some(Judged::Limit {
                what,
                limit: OPEN_OPERATIONS_MAX,
            });
        }
        if bytes + new.size() > OPEN_BYTES_MAX {
            let what = "the open operations of this resource have too many bytes";
            return Some(Judged::Limit {
                what,
                limit: OPEN_BYTES_MAX,
            });
        }
        None
    }

    /// Begins a round for a request that nothing stands against.
    pub(super) fn begin_round(&mut self, ask: &Reserve, nonce: Nonce, lease: LeaseId) {
        self.take_turn();
        self.record
            .open_round(ask, nonce, lease, self.timeline.base);
        self.live = Some(TokenRef::ThisCommit {
            base: self.timeline.base,
        });
        self.reservation = ReservationChange::Grant(lease);
        self.changed = true;
    }
}

fn granted(open: &OpenOperation) -> Draft {
    let text = if open.claim.attempts > 1 {
        format!(
            "the operation is claimed, attempt {}: an earlier claim of it ended without a result",
            open.claim.attempts
        )
    } else {
        "the operation is claimed: its effect may run".to_owned()
    };
    Draft::new(Verdict::Granted, Layer::Result, Rule::Claimed, text)
}

fn answered(draft: Draft) -> Judged {
    Judged::Answered(Box::new(draft))
}
