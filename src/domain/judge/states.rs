//! The state layer, without a machine: the request itself says from where to where, and the record's history tells a late
//! repetition from a contradiction. Also what both laws share: the history, and the move itself.

use std::collections::BTreeSet;

use super::Judged;
use super::law::Terms;
use super::transition::Objection;
use crate::domain::decision::{Layer, Rule, Verdict};
use crate::domain::ids::{IdentityName, IdentityValue, StateName};
use crate::domain::record::{
    IDENTITY_NAMES_REMEMBERED_MAX, Record, STATES_REMEMBERED_MAX, ValueHash, Visit,
};

impl Record {
    /// Whether the state stands against a request, and how.
    pub(super) fn objects_to_state(&self, terms: &Terms<'_>) -> Option<Objection> {
        match terms.event {
            Some((event, starts)) => self.objects_to_event(terms, event, starts),
            None => self.objects_to_move(terms),
        }
    }

    fn objects_to_move(&self, terms: &Terms<'_>) -> Option<Objection> {
        let state = |verdict, rule| Some(Objection::new(verdict, rule, Layer::State));
        let Some(current) = self.state.as_ref().or(terms.initial) else {
            return state(Verdict::TooEarly, Rule::NoState);
        };
        if terms.from.is_empty() || terms.from.contains(current) {
            return None;
        }
        let Some(last_left) = self.last_left(terms.from.iter()) else {
            return state(Verdict::TooEarly, Rule::NotYetReached);
        };
        if self.made_already(terms, last_left) {
            return state(Verdict::Superseded, Rule::AlreadyMoved);
        }
        state(Verdict::Rejected, Rule::Passed)
    }

    /// Whether this very move was made, in the round that the message names: its target was entered when or after its start
    /// was last left, under the values that the message gives. A move that stays counts as made if the values it sets were
    /// once in force.
    pub(super) fn made_already(&self, terms: &Terms<'_>, last_left: u64) -> bool {
        match terms.to {
            Some(to) => self.visits.get(to).is_some_and(|visit| {
                let mut given = terms.compare.iter().chain(&terms.sets);
                visit.entered >= last_left
                    && given.all(|(name, value)| visit.values.contains(&ValueHash::of(name, value)))
            }),
            None => {
                let was_in_force = |name: &IdentityName, value: &IdentityValue| {
                    self.identity.get(name).is_some_and(|known| {
                        known.current.as_ref() == Some(value)
                            || known.replaced.contains(&ValueHash::of(name, value))
                    })
                };
                !terms.sets.is_empty()
                    && terms
                        .sets
                        .iter()
                        .all(|(name, value)| was_in_force(name, value))
            }
        }
    }

    /// Whether a move would make the record remember more than it may.
    pub(super) fn over_limit(&self, terms: &Terms<'_>) -> Option<Judged> {
        let mut states: BTreeSet<&StateName> = self.visits.keys().collect();
        states.extend(terms.to);
        if self.state.is_none() {
            states.extend(terms.initial);
        }
        if states.len() > STATES_REMEMBERED_MAX {
            let what = "this resource would have been in too many different states";
            return Some(Judged::Limit {
                what,
                limit: STATES_REMEMBERED_MAX,
            });
        }
        if self.too_many_names(terms) {
            let what = "this resource would have too many identity names";
            return Some(Judged::Limit {
                what,
                limit: IDENTITY_NAMES_REMEMBERED_MAX,
            });
        }
        None
    }

    /// Makes a move that nothing objects to.
    pub(super) fn make(&mut self, terms: &Terms<'_>) {
        if self.state.is_none()
            && let Some(initial) = terms.initial
        {
            self.enter(initial.clone());
        }
        self.change_identity(terms);
        if let Some(to) = terms.to {
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
            .filter_map(|(name, value)| Some(ValueHash::of(name, value.current.as_ref()?)));
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

pub(super) fn superseded_text(rule: Rule, state: Option<&StateName>) -> String {
    if rule == Rule::AsSaid {
        return format!(
            "the resource is {}, where its machine takes this event for done",
            in_state(state)
        );
    }
    format!(
        "this move was already made, by another operation; the resource is {}",
        in_state(state)
    )
}

pub(super) fn rejected_text(rule: Rule, state: Option<&StateName>) -> String {
    let here = in_state(state);
    if rule == Rule::CannotCome {
        format!("the resource is {here}, and no state that allows this event can come")
    } else if rule == Rule::AsSaid {
        format!("the resource is {here}, where its machine refuses this event")
    } else if rule == Rule::NeverKnown {
        "the resource never had this identity value, and no event that sets it can come".to_owned()
    } else {
        format!("the resource is {here} and has left the states that this move may start from")
    }
}

pub(super) fn early_text(rule: Rule, state: Option<&StateName>, terms: &Terms<'_>) -> String {
    let here = in_state(state);
    if rule == Rule::NoState && terms.event.is_some() {
        "the resource does not exist yet".to_owned()
    } else if rule == Rule::NoState {
        "the resource has no state yet, and the request names no initial one".to_owned()
    } else if rule == Rule::NotYetKnown {
        "the resource does not know this identity value yet".to_owned()
    } else if rule == Rule::AsSaid {
        format!("the resource is {here}, where its machine lets this event wait")
    } else if terms.event.is_some() {
        format!("the resource is {here}, and a state that allows this event can still come")
    } else {
        format!("the resource is {here} and has not yet been where this move may start")
    }
}
