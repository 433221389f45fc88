//! Ways through the machine.

use super::super::definition::{Definition, Effect, Event, Otherwise, State};
use super::super::finding::{Findings, Rule};
use super::super::graph::{Graph, StateSet};

/// What each event says by itself, and of a final state.
pub(super) fn lint_events(definition: &Definition, findings: &mut Findings) {
    for state in definition.states.iter().filter(|state| state.is_final) {
        leaves_final(definition, state, findings);
    }
    for event in &definition.events {
        without_effect(event, findings);
    }
}

/// Where the moves lead.
pub(super) fn lint_ways(definition: &Definition, graph: &Graph, findings: &mut Findings) {
    if graph.created.is_empty() {
        findings.error(
            Rule::NoCreatingEvent,
            definition.events_place,
            "no event creates a resource, so that none can ever exist",
            "give the first event of a resource's life `creates: STATE`",
        );
        // Without a beginning every state is unreachable; one finding says it.
        return;
    }
    let reachable = graph.reachable();
    for (at, state) in definition.states.iter().enumerate() {
        if !reachable.contains(at) {
            findings.error(
                Rule::Unreachable,
                state.name.place,
                format!("no way leads to state {}", state.name.value),
                "add an event that leads there, or remove it (and `map` it if a version in force has it)",
            );
        }
        let ahead = graph.ahead.get(at).copied().unwrap_or_default();
        dead_end(state, at, ahead, findings);
    }
    for event in &definition.events {
        waits_in_vain(event, graph, findings);
    }
    unguarded_cycles(definition, graph, findings);
}

fn dead_end(state: &State, at: usize, ahead: StateSet, findings: &mut Findings) {
    let leads_on = !ahead.without(StateSet::one(at)).is_empty();
    if !state.is_final && !leads_on {
        findings.error(
            Rule::DeadEnd,
            state.name.place,
            format!(
                "no event leaves state {}, and it is not final",
                state.name.value
            ),
            "mark it `final: true`, or add an event that leaves it",
        );
    }
}

fn leaves_final(definition: &Definition, state: &State, findings: &mut Findings) {
    for event in &definition.events {
        let Effect::Moves { from, to } = &event.effect else {
            continue;
        };
        let here = from.iter().find(|from| from.value == state.name.value);
        if let Some(here) = here.filter(|_| to.value != state.name.value) {
            findings.error(
                Rule::FinalExit,
                here.place,
                format!(
                    "event {} leaves state {}, which is final (at {})",
                    event.name.value, state.name.value, state.name.place
                ),
                format!(
                    "take {} out of `from`, or the state out of the final ones",
                    here.value
                ),
            );
        }
    }
}

/// A move from a state to itself begins a new visit; without new identity values there is nothing that it says.
fn without_effect(event: &Event, findings: &mut Findings) {
    let Effect::Moves { from, to } = &event.effect else {
        return;
    };
    let here = from.iter().find(|from| from.value == to.value);
    if here.is_some() && event.sets.is_empty() && event.clears.is_empty() {
        findings.warning(
            Rule::NoEffect,
            to.place,
            format!(
                "event {} leads from {} to {} and sets nothing: each message moves it in a circle",
                event.name.value, to.value, to.value
            ),
            "remove `to` if it only notes something, or say what it `sets`",
        );
    }
}

fn waits_in_vain(event: &Event, graph: &Graph, findings: &mut Findings) {
    let allowed = graph.set(event.from().iter().map(|from| &from.value));
    for (state, said) in &event.otherwise {
        let ahead = graph.at(&state.value).and_then(|at| graph.ahead.get(at));
        let can_come = ahead.is_some_and(|ahead| ahead.meets(allowed));
        if *said == Otherwise::TooEarly && !can_come {
            findings.warning(
                Rule::WaitsInVain,
                state.place,
                format!(
                    "{} in {} is answered TOO_EARLY, but no state that allows it can follow: the sender asks for ever",
                    event.name.value, state.value
                ),
                "write reject or supersede",
            );
        }
    }
}

/// A circle whose events carry no identity can be gone round again by a message of an earlier round.
fn unguarded_cycles(definition: &Definition, graph: &Graph, findings: &mut Findings) {
    let carries_none = |event: &&Event| {
        event.matches.is_empty() && event.sets.is_empty() && event.clears.is_empty()
    };
    let mut bare = definition.clone();
    bare.events.retain(|event| carries_none(&event));
    let unguarded = Graph::new(&bare);
    let mut told = StateSet::default();
    for (at, state) in definition.states.iter().enumerate() {
        let ahead = unguarded.ahead.get(at).copied().unwrap_or_default();
        if !ahead.contains(at) || told.contains(at) {
            continue;
        }
        let back = |other: &usize| {
            let ahead = unguarded.ahead.get(*other).copied();
            ahead.is_some_and(|ahead| ahead.contains(at))
        };
        let circle: StateSet = ahead.iter().filter(back).collect();
        told = told.with(circle);
        // A state that leads to itself alone is told by another rule.
        if circle == StateSet::one(at) {
            continue;
        }
        let names: Vec<&str> = circle
            .iter()
            .filter_map(|at| definition.states.get(at))
            .map(|state| state.name.value.as_str())
            .collect();
        let event = definition.events.iter().filter(carries_none).find(|event| {
            let to = event.to().and_then(|to| graph.at(&to.value));
            let from = graph.set(event.from().iter().map(|from| &from.value));
            to.is_some_and(|to| circle.contains(to)) && from.meets(circle)
        });
        findings.warning(
            Rule::UnguardedCycle,
            event.map_or(state.name.place, |event| event.name.place),
            format!(
                "{} can be gone round by events that carry no identity: a message of an earlier round would be \
                 taken for one of this",
                names.join(", ")
            ),
            "let the event that begins a round set a value, and those that belong to it match it",
        );
    }
}
