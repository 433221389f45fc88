//! The identity and the state layer by a machine: what is not allowed is told apart by the resource's history and by what can
//! still come.

use super::law::Terms;
use super::transition::Objection;
use crate::domain::decision::{Layer, Rule, Verdict};
use crate::domain::ids::{IdentityName, StateName};
use crate::domain::machine::{EventInForce, InForce, Otherwise, Starts};
use crate::domain::record::Record;

impl Record {
    /// A value that is not known: one that can still come into force makes the message early, for a callback may overtake its
    /// own start.
    pub(super) fn unknown_value(&self, law: &InForce, name: &IdentityName) -> Objection {
        if law.can_be_set(name, self.state.as_ref()) {
            return Objection::new(Verdict::TooEarly, Rule::NotYetKnown, Layer::Identity);
        }
        Objection::new(Verdict::Rejected, Rule::NeverKnown, Layer::Identity)
    }

    /// Whether the state stands against an event, and how.
    pub(super) fn objects_to_event(
        &self,
        terms: &Terms<'_>,
        event: EventInForce<'_>,
        starts: Starts,
    ) -> Option<Objection> {
        let state = |verdict, rule| Some(Objection::new(verdict, rule, Layer::State));
        let creates = event.event.from().is_empty();
        let Some(current) = &self.state else {
            if creates {
                return None;
            }
            return if event.can_come(starts, None) {
                state(Verdict::TooEarly, Rule::NoState)
            } else {
                state(Verdict::Rejected, Rule::CannotCome)
            };
        };
        if event.starts_in(starts, current) {
            return None;
        }
        if let Some(said) = event.said(current) {
            let verdict = match said {
                Otherwise::Reject => Verdict::Rejected,
                Otherwise::Supersede => Verdict::Superseded,
                Otherwise::TooEarly => Verdict::TooEarly,
            };
            return state(verdict, Rule::AsSaid);
        }
        // To be created is to leave the time before, once and for good.
        let left = if creates {
            Some(0)
        } else {
            self.last_left(event.names(starts))
        };
        if left.is_some_and(|left| self.made_already(terms, left)) {
            return state(Verdict::Superseded, Rule::AlreadyMoved);
        }
        if event.can_come(starts, Some(current)) {
            return state(Verdict::TooEarly, Rule::NotYetReached);
        }
        let rule = if left.is_some() {
            Rule::Passed
        } else {
            Rule::CannotCome
        };
        state(Verdict::Rejected, rule)
    }

    /// When any of these states was last left.
    pub(super) fn last_left<'s>(&self, states: impl Iterator<Item = &'s StateName>) -> Option<u64> {
        states
            .filter_map(|state| self.visits.get(state)?.left)
            .max()
    }
}
