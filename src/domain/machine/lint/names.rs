//! Names: declared, told apart, and said once.

use std::collections::BTreeMap;

use super::super::definition::{Definition, Effect, Event};
use super::super::facts;
use super::super::finding::{Findings, Rule};
use super::super::nearest::advice;
use super::super::place::{At, Place};
use super::super::values::Name;
use crate::domain::ids::{EventName, IdentityName, StateName};

pub(super) fn lint(definition: &Definition, findings: &mut Findings) {
    let states: Vec<&At<StateName>> = definition.states.iter().map(|state| &state.name).collect();
    let events: Vec<&At<EventName>> = definition.events.iter().map(|event| &event.name).collect();
    // One of two such names may be meant for the other.
    findings.relied_on(|findings| {
        case_twins(&states, findings);
        case_twins(&identity_names(definition), findings);
    });
    case_twins(&events, findings);
    for event in &definition.events {
        let otherwise = event.otherwise.iter().map(|(state, _)| state);
        for state in event.from().iter().chain(event.to()).chain(otherwise) {
            if !known(state, &states, findings) {
                findings.undeclared();
            }
        }
        for (state, _) in &event.otherwise {
            otherwise_is_not_allowed(event, state, findings);
        }
    }
    for (dropped, successor) in &definition.map.states {
        dropped_is_gone(dropped, &states, findings);
        known(successor, &states, findings);
    }
    for (dropped, successor) in &definition.map.events {
        dropped_is_gone(dropped, &events, findings);
        if let Some(successor) = successor {
            known(successor, &events, findings);
        }
    }
    twin_events(definition, findings);
}

/// Each identity name, where it is first used.
fn identity_names(definition: &Definition) -> Vec<&At<IdentityName>> {
    let mut first = BTreeMap::new();
    for event in &definition.events {
        for name in event.sets.iter().chain(&event.matches).chain(&event.clears) {
            first.entry(name.value.clone()).or_insert(name);
        }
    }
    let mut names: Vec<&At<IdentityName>> = first.into_values().collect();
    names.sort_by_key(|name| name.place);
    names
}

fn case_twins<N: Name>(names: &[&At<N>], findings: &mut Findings) {
    let mut seen: BTreeMap<String, &At<N>> = BTreeMap::new();
    for name in names {
        let lower = name.value.text().to_lowercase();
        let Some(first) = seen.get(&lower) else {
            seen.insert(lower, name);
            continue;
        };
        findings.error(
            Rule::CaseTwins,
            name.place,
            format!(
                "{} {} and {} (at {}) differ in upper and lower case only",
                N::WHAT,
                name.value.text(),
                first.value.text(),
                first.place
            ),
            "make them one, or give them names that nobody takes for each other",
        );
    }
}

/// Whether it is declared.
fn known<N: Name>(name: &At<N>, declared: &[&At<N>], findings: &mut Findings) -> bool {
    if declared.iter().any(|other| other.value == name.value) {
        return true;
    }
    let text = name.value.text();
    // Looking for what was meant is not worth it for a finding that is only counted.
    let fix = if findings.is_full() {
        String::new()
    } else {
        advice(text, declared.iter().map(|other| other.value.text()))
    };
    let what = format!("{} {text} is not declared", N::WHAT);
    findings.error(Rule::UnknownName, name.place, what, fix);
    false
}

fn dropped_is_gone<N: Name>(dropped: &At<N>, declared: &[&At<N>], findings: &mut Findings) {
    if let Some(still) = declared.iter().find(|other| other.value == dropped.value) {
        findings.error(
            Rule::MapInUse,
            dropped.place,
            format!(
                "`map` names {} {}, which this version still has at {}",
                N::WHAT,
                dropped.value.text(),
                still.place
            ),
            "map only what was dropped",
        );
    }
}

fn otherwise_is_not_allowed(event: &Event, state: &At<StateName>, findings: &mut Findings) {
    if let Some(from) = event.from().iter().find(|from| from.value == state.value) {
        findings.error(
            Rule::Contradiction,
            state.place,
            format!(
                "`otherwise` says what becomes of {} in {}, where `from` (at {}) allows it",
                event.name.value, state.value, from.place
            ),
            "remove the state from one of them",
        );
    }
}

/// Two events that say the same are most often one event under two names, with two sets of operations.
fn twin_events(definition: &Definition, findings: &mut Findings) {
    let mut seen: BTreeMap<Vec<(String, String)>, (&EventName, Place)> = BTreeMap::new();
    for event in &definition.events {
        // Events that only note something are told apart by their names alone.
        if matches!(event.effect, Effect::Stays { .. }) {
            continue;
        }
        let said = facts::of_event(event);
        if let Some((twin, place)) = seen.get(&said) {
            findings.warning(
                Rule::TwinEvents,
                event.name.place,
                format!(
                    "event {} says the same as {twin} at {place}",
                    event.name.value
                ),
                "make them one, or say what tells them apart, such as their origin",
            );
            continue;
        }
        seen.insert(said, (&event.name.value, event.name.place));
    }
}
