//! A machine file, from its text to a definition.

use super::definition::{
    Definition, EVENTS_MAX, Event, FILE_BYTES_MAX, MachineVersion, RETENTION, STATES_MAX, State,
    Successors,
};
use super::fields::{Fields, entries};
use super::finding::{Findings, Rule};
use super::place::{At, Place};
use super::read_event;
use super::values::{Name, duration, name, name_of, truth, version};
use super::yaml::{self, Key, Node};
use crate::domain::ids::{EventName, Kind, StateName};

const MACHINE_KEYS: &[&str] = &[
    "kind",
    "version",
    "retention",
    "forget",
    "states",
    "events",
    "map",
];
const STATE_KEYS: &[&str] = &["final", "after"];
const MAP_KEYS: &[&str] = &["states", "events"];
/// In `map`, what stands for a dropped event that has no successor. No event may have this name.
pub(super) const NO_SUCCESSOR: &str = "none";

/// Reads a file as far as it can be read, so that all that is wrong is told at once. `None`: not even its outline stands.
pub(super) fn read(bytes: &[u8], findings: &mut Findings) -> Option<Definition> {
    if bytes.len() > FILE_BYTES_MAX {
        findings.error(
            Rule::Limit,
            Place::START,
            format!("the file has {} bytes", bytes.len()),
            format!("the limit is {FILE_BYTES_MAX}; is it a machine file?"),
        );
        return None;
    }
    let text = utf8(bytes, findings)?;
    if text.starts_with('\u{feff}') {
        findings.error(
            Rule::Yaml,
            Place::START,
            "the file begins with a byte order mark, which other tools take for a part of the first key",
            "save the file as UTF-8 without one",
        );
    }
    let root = yaml::parse(text, findings);
    let Some(root) = root.filter(|root| !root.is_empty()) else {
        // What could not be parsed has its finding already.
        if !findings.has_errors() {
            findings.error(
                Rule::Missing,
                Place::START,
                "the file is empty",
                "begin with `kind`, `version`, `retention`, `states` and `events`",
            );
        }
        return None;
    };
    machine(&root, findings)
}

fn utf8<'a>(bytes: &'a [u8], findings: &mut Findings) -> Option<&'a str> {
    let error = match std::str::from_utf8(bytes) {
        Ok(text) => return Some(text),
        Err(error) => error,
    };
    let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
    let good = std::str::from_utf8(good).unwrap_or_default();
    let (before, last) = good.rsplit_once('\n').unwrap_or(("", good));
    let above = usize::from(good.contains('\n')) + before.matches('\n').count();
    let place = Place {
        line: above + 1,
        column: last.chars().count() + 1,
    };
    findings.error(
        Rule::Yaml,
        place,
        "this is not UTF-8",
        "save the file as UTF-8",
    );
    None
}

fn machine(root: &Node, findings: &mut Findings) -> Option<Definition> {
    let fields = Fields::read(root, "the machine", MACHINE_KEYS, findings)?;
    let kind = fields
        .need("kind", "order", findings)
        .and_then(|node| name(node, findings));
    let version = fields
        .need("version", "1", findings)
        .and_then(|node| version(node, findings));
    let retention = fields
        .need("retention", "96h", findings)
        .and_then(|node| duration("retention", node, RETENTION, findings));
    let forget = fields
        .get("forget")
        .and_then(|node| duration("forget", node, RETENTION, findings));
    let states = fields
        .need("states", "{ new: {}, done: { final: true } }", findings)
        .and_then(|node| states(node, findings));
    let events = fields
        .need("events", "{ place: { creates: new } }", findings)
        .and_then(|node| events(node, findings));
    let map = fields
        .get("map")
        .map_or_else(Successors::default, |node| successors(node, findings));
    let place = |key: &str| {
        fields
            .entry(key)
            .map_or(fields.place(), |(key, _)| key.place)
    };
    let start = fields.place();
    // What could not be read has its finding, so that no machine comes of this; but what else is wrong can be looked for.
    let kind = kind.unwrap_or_else(|| At::new(unread_kind(), start));
    let version = version.unwrap_or_else(|| At::new(unread_version(), start));
    let forget = forget.filter(|_| retention.is_some());
    let retention = retention.unwrap_or_else(|| At::new(RETENTION.1, start));
    Some(Definition {
        kind,
        version,
        retention,
        forget,
        states: states?,
        states_place: place("states"),
        events: events?,
        events_place: place("events"),
        map,
    })
}

/// Stands for a kind that could not be read.
fn unread_kind() -> Kind {
    Kind::parse("unread").expect("a word of small letters is a kind")
}

/// Stands for a version that could not be read.
fn unread_version() -> MachineVersion {
    MachineVersion::new(1).expect("1 is a version")
}

fn states(node: &Node, findings: &mut Findings) -> Option<Vec<State>> {
    let entries = limited(node, "`states`", STATES_MAX, findings)?;
    let mut states = Vec::new();
    for (key, node) in entries {
        let read = |findings: &mut Findings| name_of(&key.text, key.place, findings);
        let Some(name) = findings.relied_on(read) else {
            continue;
        };
        let is_final = state(&name, node, findings);
        states.push(State { name, is_final });
    }
    Some(states)
}

/// Whether it is final.
fn state(name: &At<StateName>, node: &Node, findings: &mut Findings) -> bool {
    let what = format!("state {}", name.value);
    let read = |findings: &mut Findings| Fields::read(node, &what, STATE_KEYS, findings);
    let Some(fields) = findings.relied_on(read) else {
        return false;
    };
    if let Some((after, _)) = fields.entry("after") {
        findings.error(
            Rule::NotYet,
            after.place,
            "`after` needs timers, which this version of Fencepost does not have",
            "remove it, and let your own scheduler send the event (`origin: timer`)",
        );
    }
    let said = fields.get("final");
    said.and_then(|node| findings.relied_on(|findings| truth("final", node, findings)))
        .unwrap_or(false)
}

fn events(node: &Node, findings: &mut Findings) -> Option<Vec<Event>> {
    let entries = limited(node, "`events`", EVENTS_MAX, findings)?;
    let mut events = Vec::new();
    for (key, node) in entries {
        let read = |findings: &mut Findings| name_of::<EventName>(&key.text, key.place, findings);
        let name = findings.relied_on(read);
        if key.text == NO_SUCCESSOR {
            findings.error(
                Rule::Value,
                key.place,
                format!("an event cannot be called {NO_SUCCESSOR}"),
                format!(
                    "choose another name: in `map`, {NO_SUCCESSOR} means that no event follows"
                ),
            );
        }
        if let Some(name) = name {
            events.extend(read_event::read(name, node, findings));
        }
    }
    Some(events)
}

/// The entries of a mapping that may have only so many, and must have one.
fn limited<'a>(
    node: &'a Node,
    what: &str,
    most: usize,
    findings: &mut Findings,
) -> Option<&'a [(Key, Node)]> {
    let entries = entries(node, what, findings)?;
    if entries.is_empty() {
        findings.error(
            Rule::Missing,
            node.place,
            format!("{what} is empty"),
            "declare at least one",
        );
        return None;
    }
    if entries.len() > most {
        let place = entries.get(most).map_or(node.place, |(key, _)| key.place);
        findings.error(
            Rule::Limit,
            place,
            format!("{what} has {} entries", entries.len()),
            format!("the limit is {most}; split the machine into kinds"),
        );
        return None;
    }
    Some(entries)
}

fn successors(node: &Node, findings: &mut Findings) -> Successors {
    let Some(fields) = Fields::read(node, "`map`", MAP_KEYS, findings) else {
        return Successors::default();
    };
    let states = fields.get("states").map_or_else(Vec::new, |node| {
        pairs(node, "`map.states`", findings, |node, findings| {
            name(node, findings)
        })
    });
    let events = fields.get("events").map_or_else(Vec::new, |node| {
        pairs(node, "`map.events`", findings, |node, findings| {
            let event: At<EventName> = name(node, findings)?;
            Some(Some(event).filter(|event| event.value.as_str() != NO_SUCCESSOR))
        })
    });
    Successors { states, events }
}

fn pairs<N: Name, T>(
    node: &Node,
    what: &str,
    findings: &mut Findings,
    read: impl Fn(&Node, &mut Findings) -> Option<T>,
) -> Vec<(At<N>, T)> {
    let entries = entries(node, what, findings).unwrap_or_default();
    let mut pairs = Vec::new();
    for (key, node) in entries {
        let from = name_of(&key.text, key.place, findings);
        let to = read(node, findings);
        pairs.extend(from.zip(to));
    }
    pairs
}
