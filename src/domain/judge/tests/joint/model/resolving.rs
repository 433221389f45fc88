//! What a person says of an operation that was interrupted.

use super::claims::{How, Open};
use super::{Model, Said, Told, told};
use crate::domain::claim::Finding;
use crate::domain::decision::{Rule, Verdict};
use crate::domain::ids::Nonce;
use crate::domain::outcome::StoredResult;

/// What a person says of an operation.
#[derive(Clone, Debug)]
pub(in super::super) struct Resolving {
    pub(in super::super) id: u8,
    pub(in super::super) finding: Finding,
    pub(in super::super) result: StoredResult,
    pub(in super::super) even_if_running: bool,
    pub(in super::super) attempt: Option<u32>,
}

impl Model {
    /// What stands against the move of an operation of which a person says that it was done.
    fn resolvable(&self, open: &Open) -> Result<(), Rule> {
        let given = &open.letter.values;
        if open.creates {
            if self.state().is_some() {
                return Err(Rule::Passed);
            }
            let allowed = self.identity_allows(&open.sets, given);
            return allowed.map_err(|(_, rule)| rule);
        }
        self.identity_allows(&open.sets, given)
            .map_err(|(_, rule)| rule)?;
        let Some(here) = self.state() else {
            return Err(Rule::NoState);
        };
        if open.from.contains(&here) {
            return Ok(());
        }
        let Some(left) = self.last_left(&open.from) else {
            return Err(Rule::NotYetReached);
        };
        if self.made_since(left, open.to, &open.sets, given) {
            Err(Rule::AlreadyMoved)
        } else {
            Err(Rule::Passed)
        }
    }

    pub(in super::super) fn resolve(&mut self, ask: &Resolving, nonce: Nonce) -> Said {
        Said::Told(self.resolved(ask, nonce))
    }

    fn resolved(&mut self, ask: &Resolving, nonce: Nonce) -> Told {
        let resolved = told(Verdict::Applied, Rule::Resolved);
        if let Some(done) = self.done.get(&ask.id) {
            let applied = done.first.verdict == Verdict::Applied;
            return if done.by == nonce {
                resolved
            } else if ask.finding == Finding::Done && applied {
                Told {
                    result: done.first.result.clone(),
                    ..told(Verdict::Replayed, Rule::Finished)
                }
            } else if ask.finding == Finding::Refused && !applied {
                told(Verdict::Replayed, Rule::Finished)
            } else {
                told(Verdict::Rejected, Rule::Finished)
            };
        }
        let Some(open) = self.open(ask.id).cloned() else {
            return told(Verdict::Rejected, Rule::NeverClaimed);
        };
        if open.resolved_by == Some(nonce) {
            return resolved;
        }
        if ask.attempt.is_some_and(|attempt| attempt != open.attempts) {
            return told(Verdict::Rejected, Rule::OtherAttempt);
        }
        let how = self.how(&open);
        if how == How::Running && !ask.even_if_running {
            return told(Verdict::InProgress, Rule::Running);
        }
        if how == How::Returned && ask.finding == Finding::NotDone {
            return told(Verdict::Replayed, Rule::Finished);
        }
        if ask.finding == Finding::Done && how != How::Running {
            if open.changes && self.live().is_some() {
                return told(Verdict::Busy, Rule::Held);
            }
            if let Err(rule) = self.resolvable(&open) {
                return told(Verdict::Rejected, rule);
            }
        }
        match ask.finding {
            Finding::Done => {
                self.apply(open.to, &open.sets, &open.clears, &open.letter.values);
                let first = Told {
                    result: Some(ask.result.clone()),
                    ..told(Verdict::Applied, Rule::Moved)
                };
                self.settle(&open, nonce, None, &first, None);
            }
            Finding::Refused => {
                let first = told(Verdict::Rejected, Rule::Voided).settled_if(open.keeps_retrying);
                self.settle(&open, nonce, None, &first, None);
            }
            Finding::NotDone => {
                let mut all = self.open.iter_mut();
                let found = all.find(|one| one.letter.id == ask.id);
                found.unwrap().resolved_by = Some(nonce);
                self.give_back(ask.id);
            }
        }
        if how == How::Running {
            self.end(nonce, false);
        }
        resolved
    }
}
