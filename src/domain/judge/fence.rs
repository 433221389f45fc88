//! Fence, Lookup and Inspect: they only look.

use super::interrupted::Condition;
use super::{Draft, Fold, Judged, Known, OperationState, TokenRef};
use crate::domain::decision::{Layer, Rule, Verdict};
use crate::domain::ids::OperationId;
use crate::domain::request::{EndedRounds, Fence};

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
                "no token was ever granted for this resource",
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

    pub(super) fn lookup(&mut self, id: &OperationId) -> Judged {
        let draft = match self.known(id) {
            Known::Unknown => Draft::known(OperationState::NeverSeen, None),
            Known::Open(open) => match self.condition(&open) {
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
                Draft::known(state, Some(self.told_again(&operation)))
            }
        };
        Judged::Answered(Box::new(draft))
    }

    pub(super) fn inspect(&self) -> Judged {
        Judged::Answered(Box::new(self.bare_snapshot()))
    }
}
