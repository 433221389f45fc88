//! What a machine says of an event, asked of everything that ever happened.

use std::collections::BTreeSet;

use super::{Model, Step, Values};
use crate::domain::decision::{Rule, Verdict};
use crate::domain::judge::tests::joint::sketch::{Event, Otherwise};

impl Model {
    /// Whether identity and state allow an event.
    pub(super) fn allowed(&self, event: &Event, given: &Values) -> Result<(), (Verdict, Rule)> {
        self.identity_allows(&event.sets, given)?;
        let from = event.from();
        let Some(here) = self.state() else {
            return if event.creates() {
                Ok(())
            } else if self.leads(None, &from) {
                Err((Verdict::TooEarly, Rule::NoState))
            } else {
                Err((Verdict::Rejected, Rule::CannotCome))
            };
        };
        if from.contains(&here) {
            return Ok(());
        }
        if let Some(said) = event.otherwise.get(&here) {
            let verdict = match said {
                Otherwise::Reject => Verdict::Rejected,
                Otherwise::Supersede => Verdict::Superseded,
                Otherwise::TooEarly => Verdict::TooEarly,
            };
            return Err((verdict, Rule::AsSaid));
        }
        let left = if event.creates() {
            self.history.iter().position(|step| step.from.is_none())
        } else {
            self.last_left(&from)
        };
        if left.is_some_and(|left| self.made_since(left, event.to(), &event.sets, given)) {
            Err((Verdict::Superseded, Rule::AlreadyMoved))
        } else if self.leads(Some(here), &from) {
            Err((Verdict::TooEarly, Rule::NotYetReached))
        } else if left.is_some() {
            Err((Verdict::Rejected, Rule::Passed))
        } else {
            Err((Verdict::Rejected, Rule::CannotCome))
        }
    }

    pub(super) fn identity_allows(
        &self,
        sets: &BTreeSet<usize>,
        given: &Values,
    ) -> Result<(), (Verdict, Rule)> {
        let asked = given.iter().filter(|(name, _)| !sets.contains(name));
        let unknown = asked.filter(|(name, value)| self.values.get(name) != Some(value));
        let unknown: Vec<_> = unknown
            .map(|(name, value)| (*name, value.clone()))
            .collect();
        if unknown.iter().any(|value| self.ever.contains(value)) {
            return Err((Verdict::OtherRound, Rule::Replaced));
        }
        let can_come = |name: &usize| {
            let mut events = self.machine.events.iter().flatten();
            events.any(|event| {
                let from = event.from();
                let now = match self.state() {
                    None => event.creates(),
                    Some(here) => from.contains(&here),
                };
                event.sets.contains(name) && (now || self.leads(self.state(), &from))
            })
        };
        if unknown.iter().any(|(name, _)| !can_come(name)) {
            return Err((Verdict::Rejected, Rule::NeverKnown));
        }
        if unknown.is_empty() {
            Ok(())
        } else {
            Err((Verdict::TooEarly, Rule::NotYetKnown))
        }
    }

    /// Whether a resource in `here` can come to one of `there` by one move or more.
    pub(super) fn leads(&self, here: Option<usize>, there: &BTreeSet<usize>) -> bool {
        let next = |state: Option<usize>| {
            let events = self.machine.events.iter().flatten();
            let steps = events.filter(|event| match state {
                None => event.creates(),
                Some(state) => event.from().contains(&state),
            });
            steps.filter_map(Event::to).collect::<Vec<_>>()
        };
        let mut seen = BTreeSet::new();
        let mut ahead = next(here);
        while let Some(state) = ahead.pop() {
            if there.contains(&state) {
                return true;
            }
            if seen.insert(state) {
                ahead.extend(next(Some(state)));
            }
        }
        false
    }

    pub(super) fn last_left(&self, from: &BTreeSet<usize>) -> Option<usize> {
        let mut history = self.history.iter();
        history.rposition(|step| step.from.is_some_and(|state| from.contains(&state)))
    }

    /// Whether the target was entered when or after a start was last left, under the values given.
    pub(super) fn made_since(
        &self,
        left: usize,
        to: Option<usize>,
        sets: &BTreeSet<usize>,
        given: &Values,
    ) -> bool {
        let Some(to) = to else {
            let once = |name: &usize| self.ever.contains(&(*name, given[name].clone()));
            return !sets.is_empty() && sets.iter().all(once);
        };
        let entered = self.history.iter().rposition(|step| step.to == to);
        entered.is_some_and(|at| {
            let then = &self.history[at].values;
            at >= left
                && given
                    .iter()
                    .all(|(name, value)| then.get(name) == Some(value))
        })
    }

    pub(super) fn apply(
        &mut self,
        to: Option<usize>,
        sets: &BTreeSet<usize>,
        clears: &BTreeSet<usize>,
        given: &Values,
    ) {
        for name in sets {
            let value = given[name].clone();
            self.ever.insert((*name, value.clone()));
            self.values.insert(*name, value);
        }
        self.values.retain(|name, _| !clears.contains(name));
        if let Some(to) = to {
            self.history.push(Step {
                from: self.state(),
                to,
                values: self.values.clone(),
            });
        }
    }
}
