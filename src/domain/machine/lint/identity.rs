//! Identity: what is compared must have been set, and be set by an event that may.

use std::collections::BTreeMap;

use super::super::definition::{Definition, Effect, Event, MACHINE_IDENTITY_NAMES_MAX, WhileHeld};
use super::super::finding::{Findings, Rule};
use super::super::graph::{Graph, StateSet};
use super::super::nearest::nearest;
use super::super::place::At;
use super::Ways;
use crate::domain::ids::IdentityName;

/// What each event says by itself.
pub(super) fn lint_events(definition: &Definition, findings: &mut Findings) {
    for event in &definition.events {
        once_each(event, findings);
        while_held(event, findings);
    }
}

/// Where the values that are compared come from.
pub(super) fn lint_values(
    definition: &Definition,
    graph: &Graph,
    ways: Ways,
    findings: &mut Findings,
) {
    let mut set = where_begun(definition, graph);
    if set.len() > MACHINE_IDENTITY_NAMES_MAX {
        findings.error(
            Rule::Limit,
            definition.events_place,
            format!("the events set {} different identity names", set.len()),
            format!("the limit is {MACHINE_IDENTITY_NAMES_MAX}; keep what proves a round"),
        );
        // Following each of them would cost more than the limit allows for.
        return;
    }
    for (name, states) in &mut set {
        *states = spread(definition, graph, name, *states);
    }
    for event in &definition.events {
        for (key, names) in [("matches", &event.matches), ("clears", &event.clears)] {
            for name in names {
                is_set(event, key, name, &set, findings);
                // To clear what is not set does no harm; to compare with it turns every message away.
                if key == "matches" && ways == Ways::Certain {
                    is_set_here(event, name, &set, graph, findings);
                }
            }
        }
    }
}

/// For each name that an event sets: in which states a value of it begins to be in force.
fn where_begun<'a>(
    definition: &'a Definition,
    graph: &Graph,
) -> BTreeMap<&'a IdentityName, StateSet> {
    let mut all: BTreeMap<&IdentityName, StateSet> = BTreeMap::new();
    for event in &definition.events {
        for name in &event.sets {
            let begins = match &event.effect {
                Effect::Creates(to) | Effect::Moves { to, .. } => graph.set([&to.value]),
                Effect::Stays { from } => graph.set(from.iter().map(|from| &from.value)),
            };
            let states = all.entry(&name.value).or_default();
            *states = states.with(begins);
        }
    }
    all
}

/// From the states where a name is set along every move that does not clear it.
fn spread(
    definition: &Definition,
    graph: &Graph,
    name: &IdentityName,
    begins: StateSet,
) -> StateSet {
    let mut states = begins;
    loop {
        let mut more = states;
        for event in &definition.events {
            let from = graph.set(event.from().iter().map(|from| &from.value));
            let clears = event.clears.iter().any(|cleared| cleared.value == *name);
            if let Some(to) = event.to().filter(|_| !clears && from.meets(more)) {
                more = more.with(graph.set([&to.value]));
            }
        }
        if more == states {
            return states;
        }
        states = more;
    }
}

fn is_set(
    event: &Event,
    key: &str,
    name: &At<IdentityName>,
    set: &BTreeMap<&IdentityName, StateSet>,
    findings: &mut Findings,
) {
    if !set.contains_key(&name.value) {
        let near = nearest(name.value.as_str(), set.keys().map(|known| known.as_str()));
        findings.error(
            Rule::NeverSet,
            name.place,
            format!(
                "event {} {key} {}, which no event sets",
                event.name.value, name.value
            ),
            near.map_or_else(
                || {
                    format!(
                        "add {} to the `sets` of the event that begins the round",
                        name.value
                    )
                },
                |near| format!("did you mean `{near}`?"),
            ),
        );
        return;
    }
    if matches!(event.effect, Effect::Creates(_)) {
        findings.error(
            Rule::Contradiction,
            name.place,
            format!(
                "event {} creates, and {key} {}: what does not exist yet has no values",
                event.name.value, name.value
            ),
            "use `sets`",
        );
    }
}

fn is_set_here(
    event: &Event,
    name: &At<IdentityName>,
    set: &BTreeMap<&IdentityName, StateSet>,
    graph: &Graph,
    findings: &mut Findings,
) {
    let Some(states) = set
        .get(&name.value)
        .filter(|_| !matches!(event.effect, Effect::Creates(_)))
    else {
        return;
    };
    let bare = event.from().iter().find(|from| {
        let at = graph.at(&from.value);
        at.is_some_and(|at| !states.contains(at))
    });
    if let Some(from) = bare {
        findings.warning(
            Rule::NotSetHere,
            name.place,
            format!(
                "event {} matches {} in state {} (at {}), where no way leaves it set",
                event.name.value, name.value, from.value, from.place
            ),
            format!(
                "take {} out of `from`, or let an event on the way there set {}",
                from.value, name.value
            ),
        );
    }
}

/// A message gives one value for a name, so an event can do one thing with it.
fn once_each(event: &Event, findings: &mut Findings) {
    for name in &event.sets {
        let compared = event.matches.iter().find(|other| other.value == name.value);
        if let Some(other) = compared {
            findings.error(
                Rule::Contradiction,
                name.place,
                format!(
                    "event {} matches {} (at {}) and sets it: a message gives one value for a name",
                    event.name.value, name.value, other.place
                ),
                "keep `matches` if it belongs to the round, `sets` if it begins one",
            );
        }
        let cleared = event.clears.iter().find(|other| other.value == name.value);
        if let Some(other) = cleared {
            findings.error(
                Rule::Contradiction,
                other.place,
                format!(
                    "event {} sets {} (at {}) and clears it",
                    event.name.value, name.value, name.place
                ),
                "keep `sets`: it ends the round before by itself",
            );
        }
    }
}

/// Whoever holds the resource relies on its state and identity.
fn while_held(event: &Event, findings: &mut Findings) {
    if event.while_held.value != WhileHeld::Allow {
        return;
    }
    let moves = match &event.effect {
        Effect::Creates(_) => Some("creates"),
        Effect::Moves { .. } => Some("moves"),
        Effect::Stays { .. } => None,
    };
    let touches = (!event.sets.is_empty()).then_some("sets identity");
    let ends = (!event.clears.is_empty()).then_some("clears identity");
    if let Some(does) = moves.or(touches).or(ends) {
        findings.error(
            Rule::WhileHeld,
            event.while_held.place,
            format!(
                "event {} is allowed while somebody holds the resource, and {does}",
                event.name.value
            ),
            "remove `while_held`: only what leaves state and identity alone may pass a holder",
        );
    }
}
