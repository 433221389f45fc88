//! What becomes of an event in a state, as far as the file alone tells.
//!
//! An event that is not allowed in a state is either SUPERSEDED (this resource has made the move already), or TOO_EARLY (a
//! state that allows it can still come), or REJECTED. Whether it has been made is a question of the resource's history, so
//! the file can often say only which of two it will be: every history that leads to the state is followed here, in classes.

use super::definition::{Definition, Effect, Event, Otherwise};
use super::graph::{Graph, StateSet};
use crate::domain::ids::StateName;

/// What becomes of an event in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition<'a> {
    /// It creates the resource, in this state.
    Creates(&'a StateName),
    /// It moves the resource to this state.
    Moves(&'a StateName),
    /// It is allowed and leaves the state as it is.
    Stays,
    /// It is not allowed, and the file says what is answered.
    Said(Otherwise),
    /// It was done before, in every history that leads here.
    Superseded,
    /// It was done before in some histories and not in others, or under other identity values.
    ByHistory(Refusal),
    /// It cannot have been done before.
    Refused(Refusal),
}

/// What an event is told that is not allowed and has not been done before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A state that allows it can still come.
    TooEarly,
    /// None can.
    Rejected,
}

/// What has happened to a resource, as far as one event is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum History {
    /// It has never left a state where the event is allowed.
    NotLeft,
    /// It has left such a state, and has not been where the event leads since.
    Left,
    /// It has left such a state, and has been where the event leads since.
    Made,
}

/// For each history, in which states a resource can be with it.
type Histories = [StateSet; 3];

/// The answers to one event in every state: first for a resource that does not exist, then in the order of the file.
pub(super) fn column<'a>(
    definition: &'a Definition,
    graph: &Graph,
    event: &'a Event,
) -> Vec<Disposition<'a>> {
    let allowed = graph.set(event.from().iter().map(|from| &from.value));
    let histories = histories(graph, event, allowed);
    let absent = match &event.effect {
        Effect::Creates(to) => Disposition::Creates(&to.value),
        // Creating is explicit: until it happens, every other event is early, or never possible at all.
        Effect::Moves { .. } | Effect::Stays { .. } => {
            Disposition::Refused(if graph.reachable().meets(allowed) {
                Refusal::TooEarly
            } else {
                Refusal::Rejected
            })
        }
    };
    let states = definition.states.iter().enumerate().map(|(at, state)| {
        if allowed.contains(at) {
            return match &event.effect {
                Effect::Moves { to, .. } => Disposition::Moves(&to.value),
                Effect::Creates(_) | Effect::Stays { .. } => Disposition::Stays,
            };
        }
        let mut said = event.otherwise.iter();
        if let Some((_, said)) = said.find(|(other, _)| other.value == state.name.value) {
            return Disposition::Said(*said);
        }
        let ahead = graph.ahead.get(at).copied().unwrap_or_default();
        let refusal = if ahead.meets(allowed) {
            Refusal::TooEarly
        } else {
            Refusal::Rejected
        };
        derived(event, at, &histories, refusal)
    });
    std::iter::once(absent).chain(states).collect()
}

fn derived<'a>(
    event: &Event,
    at: usize,
    histories: &Histories,
    refusal: Refusal,
) -> Disposition<'a> {
    let [not_left, left, made] = histories.map(|states| states.contains(at));
    let (possible, certain) = match &event.effect {
        Effect::Creates(_) | Effect::Moves { .. } => (made, !not_left && !left),
        // Only the values that it sets tell whether it has happened; they can be known only after it was allowed.
        Effect::Stays { .. } => (!event.sets.is_empty() && (left || made), false),
    };
    // The values that it begins a round with may be others than those of the message.
    match (possible, certain && event.sets.is_empty()) {
        (true, true) => Disposition::Superseded,
        (true, false) => Disposition::ByHistory(refusal),
        (false, _) => Disposition::Refused(refusal),
    }
}

/// Follows every way that a resource can go, and keeps what it means for the event.
fn histories(graph: &Graph, event: &Event, allowed: StateSet) -> Histories {
    let target = event.to().and_then(|to| graph.at(&to.value));
    let arrive = |history: History, state: usize| {
        if target == Some(state) && history != History::NotLeft {
            History::Made
        } else {
            history
        }
    };
    // To a creating event, not to exist is where it is allowed, and every resource has left that.
    let born = match &event.effect {
        Effect::Creates(_) => History::Left,
        Effect::Moves { .. } | Effect::Stays { .. } => History::NotLeft,
    };
    let mut seen = Histories::default();
    let mut open: Vec<(History, usize)> = Vec::new();
    let mut visit = |history: History, state: usize, open: &mut Vec<(History, usize)>| {
        let history = arrive(history, state);
        let [not_left, left, made] = &mut seen;
        let states = match history {
            History::NotLeft => not_left,
            History::Left => left,
            History::Made => made,
        };
        if !states.contains(state) {
            *states = states.with(StateSet::one(state));
            open.push((history, state));
        }
    };
    for state in graph.created.iter() {
        visit(born, state, &mut open);
    }
    while let Some((history, state)) = open.pop() {
        // What was made before belongs to an earlier visit.
        let leaving = if allowed.contains(state) {
            History::Left
        } else {
            history
        };
        for next in graph.next.get(state).copied().unwrap_or_default().iter() {
            visit(leaving, next, &mut open);
        }
    }
    seen
}
