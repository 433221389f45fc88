//! What is told of an operation that is done, as the model has it.

use super::{Beside, Done, Letter, Model, Told, counted, told};
use crate::domain::decision::{Rule, Verdict};
use crate::domain::ids::Nonce;

impl Model {
    /// What was decided before. `letter`: what is said now, unless only a result is.
    pub(super) fn again(
        &self,
        letter: Option<&Letter>,
        beside: &Beside,
        nonce: Nonce,
        done: &Done,
    ) -> Told {
        if done.by == nonce {
            return done.first.clone();
        }
        let first = Told {
            alerts: None,
            ..done.first.clone()
        };
        if let Some(letter) = letter {
            let conflict = |rule| {
                let conflict = told(Verdict::Conflict, rule).alerting(true);
                conflict.settled_if(done.keeps_retrying)
            };
            if counted(letter.content, done.counts) != done.counted {
                return conflict(Rule::OtherContent);
            }
            if !done.event.is(&letter.event) {
                return conflict(Rule::OtherEvent);
            }
        }
        let over = told(Verdict::Fenced, Rule::DoneWithoutRound).alerting(beside.says_something());
        if first.rule == Rule::Voided && beside.under.is_some() {
            return over;
        }
        if first.verdict != Verdict::Applied {
            return first;
        }
        let mut replayed = Told {
            result: first.result.clone(),
            ..told(Verdict::Replayed, Rule::SameContent)
        };
        let Some(round) = beside.under else {
            return replayed;
        };
        let same_round = done.round == Some(round);
        let other_result = beside.result.is_some() && beside.result != first.result;
        if !same_round && !self.is_live(round) {
            return over;
        }
        let other_outcome = match (&beside.outcome, &done.outcome) {
            (None, made) => same_round && made.is_some(),
            (Some(named), Some(made)) => !made.is(named),
            (Some(named), None) => !done.event.is(named),
        };
        if other_outcome {
            replayed.rule = Rule::OtherOutcome;
            replayed.alerts = Some(true);
        } else if same_round && other_result {
            replayed.rule = Rule::OtherResult;
            replayed.alerts = Some(true);
        }
        replayed
    }
}
