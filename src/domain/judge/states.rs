//! The state layer, without a machine: the request itself says from where to where, and the record's history tells a late
//! repetition from a contradiction.

use std::collections::BTreeSet;

use super::Judged;
use super::transition::Objection;
use crate::domain::decision::{Rule, Verdict};
use crate::domain::ids::{IdentityName, IdentityValue, StateName};
use crate::domain::record::{
    IDENTITY_NAMES_REMEMBERED_MAX, Record, STATES_REMEMBERED_MAX, ValueHash, Visit,
};
use crate::domain::request::{Intent, Move};

impl Record {
    /// Whether the state stands against a move, and how.
    pub(super) fn objects_to_move(&self, intent: &Intent, movement: &Move) -> Option<Objection> {
        let Some(current) = self.state.as_ref().or(movement.initial.as_ref()) else {
            return Some(Objection {
                verdict: Verdict::TooEarly,
                rule: Rule::NoState,
            });
        };
        if intent.from.is_empty() || intent.from.contains(current) {
            return None;
        }
        let lefts = intent
            .from
            .iter()
            .filter_map(|state| self.visits.get(state)?.left);
        let Some(last_left) = lefts.max() else {
            return Some(Objection {
                verdict: Verdict::TooEarly,
                rule: Rule::NotYetReached,
            });
        };
        if self.made_already(intent, movement, last_left) {
            return Some(Objection {
                verdict: Verdict::Superseded,
                rule: Rule::AlreadyMoved,
            });
        }
        Some(Objection {
            verdict: Verdict::Rejected,
            rule: Rule::Passed,
        })
    }

    /// Whether this very move was made, in the round that the message names: its target was entered when or after its start
    /// was last left, under the values that the message gives. A move that stays counts as made if the values it sets were
    /// once in force.
    fn made_already(&self, intent: &Intent, movement: &Move, last_left: u64) -> bool {
        match &movement.to {
            Some(to) => self.visits.get(to).is_some_and(|visit| {
                let mut given = intent.identity.iter().chain(&movement.sets);
                visit.entered >= last_left
                    && given.all(|(name, value)| visit.values.contains(&ValueHash::of(name, value)))
            }),
            None => {
                let was_in_force = |name: &IdentityName, value: &IdentityValue| {
                    self.identity.get(name).is_some_and(|known| {
                        known.current == *value
                            || known.replaced.contains(&ValueHash::of(name, value))
                    })
                };
                !movement.sets.is_empty()
                    && movement
                        .sets
                        .iter()
                        .all(|(name, value)| was_in_force(name, value))
            }
        }
    }

    /// Whether a move would make the record remember more than it may.
    pub(super) fn over_limit(&self, movement: &Move) -> Option<Judged> {
        let mut states: BTreeSet<&StateName> = self.visits.keys().collect();
        states.extend(movement.to.iter());
        if self.state.is_none() {
            states.extend(movement.initial.iter());
        }
        if states.len() > STATES_REMEMBERED_MAX {
            let what = "this resource would have been in too many different states";
            return Some(Judged::Limit {
                what,
                limit: STATES_REMEMBERED_MAX,
            });
        }
        if self.too_many_names(&movement.sets) {
            let what = "this resource would have too many identity names";
            return Some(Judged::Limit {
                what,
                limit: IDENTITY_NAMES_REMEMBERED_MAX,
            });
        }
        None
    }

    /// Makes a move that nothing objects to.
    pub(super) fn make(&mut self, movement: &Move) {
        if self.state.is_none()
            && let Some(initial) = &movement.initial
        {
            self.enter(initial.clone());
        }
        self.set_identity(&movement.sets);
        if let Some(to) = &movement.to {
            self.enter(to.clone());
        }
    }

    fn enter(&mut self, state: StateName) {
        self.moves += 1;
        if let Some(left) = self.state.replace(state.clone()) {
            self.visits.entry(left).or_default().left = Some(self.moves);
        }
        let values = self
            .identity
            .iter()
            .map(|(name, value)| ValueHash::of(name, &value.current));
        let values = values.collect();
        let visit: &mut Visit = self.visits.entry(state).or_default();
        visit.entered = self.moves;
        visit.values = values;
    }
}

fn in_state(state: Option<&StateName>) -> String {
    state.map_or_else(
        || "without a state".to_owned(),
        |state| format!("in state {state}"),
    )
}

pub(super) fn superseded_text(state: Option<&StateName>) -> String {
    format!(
        "this move was already made, by another operation; the resource is {}",
        in_state(state)
    )
}

pub(super) fn rejected_text(state: Option<&StateName>) -> String {
    format!(
        "the resource is {} and has left the states that this move may start from",
        in_state(state)
    )
}

pub(super) fn early_text(rule: Rule, state: Option<&StateName>) -> String {
    if rule == Rule::NoState {
        "the resource has no state yet, and the request names no initial one".to_owned()
    } else if rule == Rule::NotYetKnown {
        "the resource does not know this identity value yet".to_owned()
    } else {
        format!(
            "the resource is {} and has not yet been where this move may start",
            in_state(state)
        )
    }
}
