//! A person resolves an operation that was interrupted: it was done, it was not, or it must never be.

use super::interrupted::Condition;
use super::law::Terms;
use super::transition::{Objection, Obstacle};
use super::{Draft, Fold, Judged, Known, ReservationChange};
use crate::domain::claim::{Finding, OpenOperation, Resolution};
use crate::domain::decision::{Layer, Rule, Verdict};
use crate::domain::ids::Nonce;
use crate::domain::outcome::StoredResult;
use crate::domain::record::Operation;
use crate::domain::request::{Left, Resolve, Running};

impl Fold<'_> {
    pub(super) fn resolve(&mut self, ask: &Resolve, nonce: Nonce) -> Judged {
        match self.known(&ask.operation) {
            Known::Unknown => {
                let text = "no claim of such an operation is known; there is nothing to resolve";
                answered(self.refused(Rule::NeverClaimed, text))
            }
            Known::Finished(done) => answered(self.resolved_before(ask, nonce, &done)),
            Known::Open(open) => self.resolve_open(ask, nonce, *open),
        }
    }

    fn refused(&self, rule: Rule, text: &str) -> Draft {
        self.showing(Draft::new(Verdict::Rejected, Layer::Replay, rule, text))
    }

    fn resolved_before(&self, ask: &Resolve, nonce: Nonce, done: &Operation) -> Draft {
        if done.mark == nonce.mark() {
            // Ours: the commit went through and only its reply was lost.
            return self.showing(resolved(ask.finding));
        }
        let applied = done.verdict == Verdict::Applied;
        let agrees = match ask.finding {
            Finding::Done => applied,
            Finding::Refused => !applied,
            Finding::NotDone => false,
        };
        if agrees {
            let text = "the operation was finished before, and nothing was changed";
            let draft = Draft::new(Verdict::Replayed, Layer::Replay, Rule::Finished, text)
                .first_time(done.time_ms);
            let draft = if applied {
                draft.result(done.result.clone())
            } else {
                draft
            };
            return self.showing(draft);
        }
        let text = "the operation is finished, and not as this says; nothing was changed";
        self.refused(Rule::Finished, text).first_time(done.time_ms)
    }

    fn resolve_open(&mut self, ask: &Resolve, nonce: Nonce, open: OpenOperation) -> Judged {
        let last = open.claim.resolved.as_ref();
        if last.is_some_and(|last| last.mark == nonce.mark()) {
            // Ours: the commit went through and only its reply was lost.
            return answered(self.showing(resolved(ask.finding)));
        }
        if ask
            .attempt
            .is_some_and(|looked_into| looked_into != open.claim.attempts)
        {
            let text = format!(
                "the last attempt at the operation is number {}, and not the one looked into; nothing was changed",
                open.claim.attempts
            );
            return answered(self.refused(Rule::OtherAttempt, &text));
        }
        let condition = self.condition(&open);
        if condition == Condition::Running {
            if ask.running == Running::Spared {
                return answered(self.in_progress(&open));
            }
            if self.reservation != ReservationChange::Keep {
                return Judged::Later;
            }
        }
        if condition == Condition::Returned && ask.finding == Finding::NotDone {
            let text = "the operation was given back before, and may start again";
            let draft = Draft::new(Verdict::Replayed, Layer::Replay, Rule::Finished, text);
            return answered(self.showing(draft));
        }
        if ask.finding == Finding::NotDone && self.gives_back_enough() {
            return Judged::Later;
        }
        let mut open = open;
        if ask.finding == Finding::Done {
            if let Err(unlawful) = self.follow() {
                return Judged::Unlawful(unlawful);
            }
            if let Some(led_along) = self.record.open(&ask.operation) {
                open = led_along.clone();
            }
            if let Err(unlawful) = self.has_place_for(&Terms::of_claim(&open)) {
                return Judged::Unlawful(unlawful);
            }
            if let Some(stands_against) = self.move_of(&open, condition) {
                return stands_against;
            }
        }
        self.settle(ask, nonce, &open);
        let mut draft = resolved(ask.finding);
        if condition == Condition::Running {
            // The claim must not be completed after this; its holder learns of it by the round's end.
            draft = self.end_round(draft, nonce, Left::Unsaid);
        }
        answered(self.showing(draft))
    }

    /// What stands against the move of an operation that a person says was done.
    fn move_of(&self, open: &OpenOperation, condition: Condition) -> Option<Judged> {
        if condition == Condition::Running {
            // Nothing has moved the resource since the claim was judged.
            return None;
        }
        let terms = Terms::of_claim(open);
        if terms.changes()
            && let Some((round, _)) = self.live_round()
        {
            return Some(answered(self.showing(self.busy(round))));
        }
        let creates = open.judged.is_some() && open.intent.from.is_empty();
        let allowed = match &self.record.state {
            // What was to be created was created by something else.
            Some(_) if creates => {
                let (verdict, rule) = (Verdict::Rejected, Rule::Passed);
                Err(Obstacle::Objection(Objection::new(
                    verdict,
                    rule,
                    Layer::State,
                )))
            }
            None if creates => self.allows(&Terms {
                moves: false,
                ..terms
            }),
            Some(_) | None => self.allows(&terms),
        };
        match allowed {
            Ok(()) => None,
            Err(Obstacle::Limit(limit)) => Some(limit),
            Err(Obstacle::Objection(objection)) => {
                let text = "its move is no longer allowed where the resource stands; nothing was changed: have it refused, \
                            or bring the resource to where it was";
                let draft = Draft::new(Verdict::Rejected, objection.layer, objection.rule, text)
                    .expected(&open.intent.from);
                Some(answered(self.showing(draft)))
            }
        }
    }

    fn settle(&mut self, ask: &Resolve, nonce: Nonce, open: &OpenOperation) {
        let resolution = Box::new(Resolution {
            finding: ask.finding,
            by: ask.by.clone(),
            reason: ask.reason.clone(),
            time_ms: self.when.wall_ms,
            mark: nonce.mark(),
        });
        let (verdict, rule, result) = match ask.finding {
            Finding::NotDone => {
                let mut all = self.record.open.iter_mut();
                if let Some(open) = all.find(|one| one.intent.operation == ask.operation) {
                    open.claim.resolved = Some(resolution);
                }
                self.give_back(&ask.operation);
                return;
            }
            Finding::Done => {
                let rule = self.take_effect(&Terms::of_claim(open));
                (Verdict::Applied, rule, ask.result.clone())
            }
            Finding::Refused => (Verdict::Rejected, Rule::Voided, StoredResult::default()),
        };
        let settled = self.settled(open, nonce, (verdict, rule), result);
        self.keep(Operation {
            state: (verdict != Verdict::Applied)
                .then(|| self.record.state.clone())
                .flatten(),
            resolved: Some(resolution),
            ..settled
        });
    }
}

fn resolved(finding: Finding) -> Draft {
    let text = match finding {
        Finding::Done => "the operation is done, as was found out; duplicates get its result",
        Finding::NotDone => "the operation was not done, as was found out; it may start again",
        Finding::Refused => "the operation will never be run; duplicates are refused",
    };
    Draft::new(Verdict::Applied, Layer::Result, Rule::Resolved, text)
}

fn answered(draft: Draft) -> Judged {
    Judged::Answered(Box::new(draft))
}
