//! Fence, Lookup and Inspect: they only look.

use std::sync::Arc;

use super::interrupted::Condition;
use super::sweep::too_old_draft;
use super::{Certainty, Draft, Fold, Judged, Known, OperationState, TokenRef};
use crate::domain::decision::{Layer, Rule, Verdict};
use crate::domain::request::{EndedRounds, Fence, Lookup};

impl Fold<'_> {
    pub(super) fn fence(&self, ask: &Fence) -> Judged {
        let shown = ask.token;
        if shown.get() < self.timeline.min_token {
            let text = "the token was issued before the store was restored";
            return self.fenced(Rule::OlderTimeline, text);
        }
        let last = match self.live {
            // The new grant has no number yet.
            Some(TokenRef::ThisCommit { .. }) => return Judged::Later,
            Some(TokenRef::Known(live)) => Some(live),
            None => self
                .record
                .round
                .as_ref()
                .and_then(|round| round.token(self.revision)),
        };
        let Some(last) = last else {
            return self.fenced(
                Rule::NeverIssued,
                "no token is known of this resource: none was granted, or so long ago that it is forgotten",
            );
        };
        if shown > last {
            return self.fenced(
                Rule::NeverIssued,
                "no such token was granted: it is above the last one",
            );
        }
        if shown < last {
            return self.fenced(Rule::Overtaken, "a later token was granted");
        }
        let (rule, text) = match (self.live, ask.ended) {
            (Some(_), _) => (Rule::Live, "the token is that of the live reservation"),
            (None, EndedRounds::Accepted) => (
                Rule::LastGranted,
                "the reservation is over, and nothing was granted after it",
            ),
            (None, EndedRounds::Refused) => {
                return self.fenced(Rule::TokenEnded, "the reservation of this token is over");
            }
        };
        let draft = Draft::new(Verdict::Granted, Layer::Fence, rule, text);
        Judged::Answered(Box::new(self.showing(draft)))
    }

    fn fenced(&self, rule: Rule, text: &str) -> Judged {
        let draft = Draft::new(Verdict::Fenced, Layer::Fence, rule, text);
        Judged::Answered(Box::new(self.showing(draft)))
    }

    pub(super) fn lookup(&mut self, ask: &Lookup) -> Judged {
        let too_old = ask.made_ms.is_some_and(|made| self.too_old_now(made));
        let draft = match self.known(&ask.operation) {
            Known::Unknown if too_old => {
                Draft::known(OperationState::Expired, Some(too_old_draft()))
            }
            Known::Unknown => Draft::known(OperationState::NeverSeen, None),
            Known::Open(open) => match self.condition(&open) {
                Condition::Returned if too_old => {
                    Draft::known(OperationState::Expired, Some(too_old_draft()))
                }
                Condition::Returned => Draft::known(OperationState::NeverSeen, None),
                Condition::Running => {
                    Draft::known(OperationState::Running, Some(self.in_progress(&open)))
                }
                Condition::Reruns => {
                    Draft::known(OperationState::Interrupted, Some(self.needs_claim(&open)))
                }
                Condition::Asks => {
                    Draft::known(OperationState::Interrupted, Some(self.died(&open)))
                }
            },
            Known::Finished(operation) => {
                let state = if operation.verdict != Verdict::Applied {
                    OperationState::Refused
                } else if operation.result.is_empty() {
                    OperationState::DoneEmpty
                } else {
                    OperationState::Done
                };
                let told = self.told_again(&operation);
                let told = told.deliveries(self.deliveries(&operation));
                let mut draft = Draft::known(state, Some(told));
                if operation.expired(self.when.now) {
                    draft.certainty = Certainty::Confirm;
                }
                draft
            }
        };
        Judged::Answered(Box::new(draft))
    }

    pub(super) fn inspect(&mut self) -> Judged {
        // What does not fit the law is shown as it is: nothing is judged here.
        let allowed = match self.follow() {
            Ok(()) => self.law.allowed_events(self.record.state.as_ref()),
            Err(_) => Arc::default(),
        };
        Judged::Answered(Box::new(self.bare_snapshot(allowed)))
    }
}
