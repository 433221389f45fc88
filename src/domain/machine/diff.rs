//! Two versions of a machine: what changed, and whether the one may follow the other.

use std::fmt;

use super::Machine;
use super::facts::{self, Facts};
use super::finding::{Finding, Findings, Rule};
use super::place::{At, Place};
use super::values::Name;

/// One fact that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    path: String,
    before: Option<String>,
    after: Option<String>,
}

/// `+` what is new, `-` what is gone, `~` what says something else.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        let said = |text: &String| {
            if text.is_empty() {
                String::new()
            } else {
                format!(": {text}")
            }
        };
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => write!(f, "~ {path}: {before} → {after}"),
            (None, Some(after)) => write!(f, "+ {path}{}", said(after)),
            (Some(before), None) => write!(f, "- {path}{}", said(before)),
            (None, None) => write!(f, "  {path}"),
        }
    }
}

/// What lies between two versions.
#[derive(Clone, Debug)]
pub struct Difference {
    /// What changed, without the version and the map.
    pub changes: Vec<Change>,
    /// Why the new one may not follow the old one; empty: it may, or it is the same. Places are those of the new file.
    pub findings: Vec<Finding>,
}

/// Compares two versions of one machine.
pub fn difference(old: &Machine, new: &Machine) -> Difference {
    let mut findings = Findings::default();
    let (was, is) = (old.definition(), new.definition());
    let place = is.kind.place;
    if was.kind.value != is.kind.value {
        findings.error(
            Rule::Version,
            place,
            format!("the kind is {}, and was {}", is.kind.value, was.kind.value),
            "compare two versions of one machine; a kind cannot be renamed",
        );
    }
    versions(old, new, &mut findings);
    let states: Vec<_> = is.states.iter().map(|state| &state.name).collect();
    let mapped: Vec<_> = is.map.states.iter().map(|(dropped, _)| dropped).collect();
    for state in &was.states {
        dropped(
            &state.name,
            &states,
            &mapped,
            is.states_place,
            &mut findings,
        );
    }
    let events: Vec<_> = is.events.iter().map(|event| &event.name).collect();
    let mapped: Vec<_> = is.map.events.iter().map(|(dropped, _)| dropped).collect();
    for event in &was.events {
        dropped(
            &event.name,
            &events,
            &mapped,
            is.events_place,
            &mut findings,
        );
    }
    Difference {
        changes: changes(&facts::of(was), &facts::of(is)),
        findings: findings.into_sorted(),
    }
}

fn versions(old: &Machine, new: &Machine, findings: &mut Findings) {
    let (was, is) = (
        old.definition().version.value,
        new.definition().version.value,
    );
    if is > was || old.hash() == new.hash() {
        return;
    }
    let what = if is == was {
        format!("the version is {is} as before, and the content is another")
    } else {
        format!("the version is {is}, lower than {was}")
    };
    findings.error(
        Rule::Version,
        new.definition().version.place,
        what,
        format!("write version {} or higher", u64::from(was.get()) + 1),
    );
}

fn dropped<N: Name>(
    name: &At<N>,
    still: &[&At<N>],
    mapped: &[&At<N>],
    place: Place,
    findings: &mut Findings,
) {
    let has = |names: &[&At<N>]| names.iter().any(|other| other.value == name.value);
    if has(still) || has(mapped) {
        return;
    }
    let text = name.value.text();
    findings.error(
        Rule::Unmapped,
        place,
        format!(
            "{} {text} was dropped, and `map` does not say what stands for it now",
            N::WHAT
        ),
        format!(
            "add `map: {{ {}s: {{ {text}: NAME }} }}`, or keep it",
            N::WHAT
        ),
    );
}

fn changes(before: &Facts, after: &Facts) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    let paths: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for path in paths {
        let (was, is) = (before.get(path), after.get(path));
        if was != is {
            changes.push(Change {
                path: path.clone(),
                before: was.cloned(),
                after: is.cloned(),
            });
        }
    }
    changes
}
