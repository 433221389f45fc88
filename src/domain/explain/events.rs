//! Which events are allowed now, and what the others would be told.

use super::words::list;
use super::{Telling, Topic};
use crate::domain::ids::EventName;
use crate::domain::judge::Law;
use crate::domain::machine::{EventInForce, Otherwise, WhileHeld};
use crate::domain::record::Record;

/// What an event would be told, in the order in which it is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Allowed,
    /// Allowed, for a message that gives the values in force.
    AllowedIfMatching,
    /// The file says so itself.
    Said(Said),
    Superseded,
    /// Made already under the values of then; under others, early.
    SupersededElseEarly,
    /// Made already under the values of then; under others, too late.
    SupersededElseRejected,
    Early,
    Rejected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    Reject,
    Supersede,
    TooEarly,
}

impl Telling<'_> {
    /// By the machine in force; without one there is nothing that could be listed.
    pub(super) fn events(&mut self) {
        let kind = self.gathered.resource.kind();
        let machine = match (&self.gathered.law, &self.look.unlawful) {
            (Law::Machine(machine), None) => machine,
            (Law::NoFile, None) => {
                let text = format!(
                    "No machine is in force for kind {kind}: each request says itself where it may start, and the state decides."
                );
                self.say(Topic::Event, text);
                return;
            }
            // Said with the state.
            (Law::Machine(_) | Law::NoFile | Law::Unreadable(_), _) => return,
        };
        let mut by_outcome: Vec<(Outcome, Vec<&EventName>)> = Vec::new();
        let mut passes = Vec::new();
        for event in &machine.machine().definition().events {
            let name = &event.name.value;
            let Some(in_force) = machine.event(name) else {
                continue;
            };
            let outcome = self.look.record.outcome(in_force);
            match by_outcome.iter_mut().find(|(known, _)| *known == outcome) {
                Some((_, names)) => names.push(name),
                None => by_outcome.push((outcome, vec![name])),
            }
            if event.while_held.value == WhileHeld::Allow {
                passes.push(name);
            }
        }
        by_outcome.sort_by_key(|(outcome, _)| *outcome);
        let none_allowed = by_outcome.first().is_none_or(|(outcome, _)| {
            !matches!(outcome, Outcome::Allowed | Outcome::AllowedIfMatching)
        });
        if none_allowed {
            self.say(Topic::Event, "No event is allowed now.");
        }
        for (outcome, names) in by_outcome {
            self.say(Topic::Event, outcome.told(&list(names)));
        }
        if self.look.live.is_some() {
            let but = match passes.is_empty() {
                true => String::new(),
                false => format!(", but for {}", list(passes)),
            };
            let text = format!(
                "While it is held, only its holder is let through to these{but}; others are BUSY."
            );
            self.say(Topic::Event, text);
        }
    }
}

impl Record {
    /// What the state layer would make of an event, as far as that does not hang on the values of a message.
    fn outcome(&self, event: EventInForce<'_>) -> Outcome {
        let said = event.event;
        let starts = event.starts(&[]);
        let names_values = !said.matches.is_empty() || !said.sets.is_empty();
        let creates = said.from().is_empty();
        let state = self.state.as_ref();
        let allowed = match state {
            None => creates && self.forgotten.is_none(),
            Some(state) => event.starts_in(starts, state),
        };
        if allowed {
            return match said.matches.is_empty() {
                true => Outcome::Allowed,
                false => Outcome::AllowedIfMatching,
            };
        }
        if let Some(otherwise) = state.and_then(|state| event.said(state)) {
            return Outcome::Said(match otherwise {
                Otherwise::Reject => Said::Reject,
                Otherwise::Supersede => Said::Supersede,
                Otherwise::TooEarly => Said::TooEarly,
            });
        }
        let left = match state {
            Some(_) if creates => Some(0),
            Some(_) => self.last_left(event.names(starts)),
            None => None,
        };
        let made = left.is_some_and(|left| match said.to() {
            Some(to) => self
                .visits
                .get(&to.value)
                .is_some_and(|visit| visit.entered >= left),
            // One that stays was made if the values that it sets were once in force.
            None => {
                let mut sets = said.sets.iter();
                !said.sets.is_empty() && sets.all(|set| self.identity.contains_key(&set.value))
            }
        });
        let can_come = self.forgotten.is_none() && event.can_come(starts, state);
        match (made, names_values, can_come) {
            (true, false, _) => Outcome::Superseded,
            (true, true, true) => Outcome::SupersededElseEarly,
            (true, true, false) => Outcome::SupersededElseRejected,
            (false, _, true) => Outcome::Early,
            (false, _, false) => Outcome::Rejected,
        }
    }
}

impl Outcome {
    fn told(self, names: &str) -> String {
        match self {
            Self::Allowed => format!("Allowed now: {names}."),
            Self::AllowedIfMatching => {
                format!("Allowed now, with the identity values in force: {names}.")
            }
            Self::Said(Said::Reject) => {
                format!("REJECTED in this state, as the machine says itself: {names}.")
            }
            Self::Said(Said::Supersede) => {
                format!("SUPERSEDED in this state, as the machine says itself: {names}.")
            }
            Self::Said(Said::TooEarly) => {
                format!("TOO_EARLY in this state, as the machine says itself: {names}.")
            }
            Self::Superseded => {
                format!("SUPERSEDED, for the resource has made this move already: {names}.")
            }
            Self::SupersededElseEarly => format!(
                "SUPERSEDED under the identity values of the move that was made, TOO_EARLY under others that fit: {names}."
            ),
            Self::SupersededElseRejected => format!(
                "SUPERSEDED under the identity values of the move that was made, REJECTED under others that fit: {names}."
            ),
            Self::Early => {
                format!("TOO_EARLY, for a state that allows it can still come: {names}.")
            }
            Self::Rejected => {
                format!("REJECTED, for no state that allows it can come any more: {names}.")
            }
        }
    }
}
