//! What a definition says, as a list of plain facts: what versions are compared by, and what the hash is made of.
//!
//! Facts know nothing of order, comments or layout, and leave out what holds unsaid, so that a key that a later Fencepost
//! learns does not change the hash of a file that does not use it.

use std::collections::BTreeMap;
use std::fmt;

use humantime::format_duration;
use sha2::{Digest, Sha256};

use super::definition::{Definition, DigestRule, Effect, Event, Successors, Words};
use super::place::At;
use super::read::NO_SUCCESSOR;
use super::values::Name;

/// What every hash begins with, so that it is never taken for another one.
const HASH_PREFIX: &[u8] = b"fencepost:machine:v1\n";
/// How many bytes of a hash are shown.
const HASH_BYTES_SHOWN: usize = 6;

/// Path of a fact, such as `event pay to`, and what it says.
pub(super) type Facts = BTreeMap<String, String>;

/// The hash of what a definition says. Equal hashes mean the same law, whatever the files look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MachineHash([u8; 32]);

impl MachineHash {
    /// As stored.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// The beginning of the hash, for people.
impl fmt::Display for MachineHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.iter().take(HASH_BYTES_SHOWN) {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// All that a definition says, its version and what became of earlier names included.
pub(super) fn hash(definition: &Definition) -> MachineHash {
    let mut facts = of(definition);
    facts.insert("version".to_owned(), definition.version.value.to_string());
    facts.extend(of_map(&definition.map));
    let mut hash = Sha256::new();
    hash.update(HASH_PREFIX);
    for text in facts.iter().flat_map(|(path, said)| [path, said]) {
        // Each text tells its length, so that no two lists of facts are the same bytes.
        hash.update(format!("{}:", text.len()));
        hash.update(text);
    }
    MachineHash(hash.finalize().into())
}

/// What judges: everything but the version and the map.
pub(super) fn of(definition: &Definition) -> Facts {
    let mut facts = Facts::new();
    let mut say = |path: String, said: String| facts.insert(path, said);
    say("kind".into(), definition.kind.value.to_string());
    say("retention".into(), span(definition.retention.value));
    if let Some(forget) = &definition.forget {
        say("forget".into(), span(forget.value));
    }
    for state in &definition.states {
        let name = &state.name.value;
        say(format!("state {name}"), String::new());
        if state.is_final {
            say(format!("state {name} final"), "true".into());
        }
    }
    for event in &definition.events {
        let name = &event.name.value;
        say(format!("event {name}"), String::new());
        for (key, said) in of_event(event) {
            say(format!("event {name} {key}"), said);
        }
    }
    facts
}

/// What an event says, without its name.
pub(super) fn of_event(event: &Event) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut say = |key: &str, said: String| {
        if !said.is_empty() {
            facts.push((key.to_owned(), said));
        }
    };
    match &event.effect {
        Effect::Creates(to) => say("creates", to.value.to_string()),
        Effect::Moves { from, to } => {
            say("from", listed(from));
            say("to", to.value.to_string());
        }
        Effect::Stays { from } => say("from", listed(from)),
    }
    say("matches", listed(&event.matches));
    say("sets", listed(&event.sets));
    say("clears", listed(&event.clears));
    match &event.digest {
        DigestRule::Whole => {}
        DigestRule::Include(pointers) => say("digest include", pointed(pointers)),
        DigestRule::Exclude(pointers) => say("digest exclude", pointed(pointers)),
        DigestRule::None => say("digest", "none".into()),
    }
    say("interrupted", unless_unsaid(event.interrupted.value));
    for (state, said) in &event.otherwise {
        say(&format!("otherwise {}", state.value), said.word().into());
    }
    say("origin", unless_unsaid(event.origin));
    say("while_held", unless_unsaid(event.while_held.value));
    say("second_key", unless_unsaid(event.second_key));
    say("other_round", unless_unsaid(event.other_round));
    say("claim", event.claim.map_or_else(String::new, span));
    if let Some(upstream) = &event.upstream {
        say("upstream key", upstream.key.clone().unwrap_or_default());
        say("upstream receipt", unless_unsaid(upstream.receipt));
        let window = upstream.retry_window.as_ref();
        say(
            "upstream retry_window",
            window.map_or_else(String::new, |window| span(window.value)),
        );
        say("upstream on_refusal", unless_unsaid(upstream.on_refusal));
    }
    facts
}

fn of_map(map: &Successors) -> Facts {
    let states = map
        .states
        .iter()
        .map(|(from, to)| (format!("map state {}", from.value), to.value.to_string()));
    let events = map.events.iter().map(|(from, to)| {
        let to = to.as_ref().map_or(NO_SUCCESSOR, |to| to.value.as_str());
        (format!("map event {}", from.value), to.to_owned())
    });
    states.chain(events).collect()
}

fn span(span: std::time::Duration) -> String {
    format_duration(span).to_string()
}

fn unless_unsaid<W: Words>(value: W) -> String {
    if value == W::unsaid() {
        String::new()
    } else {
        value.word().to_owned()
    }
}

fn listed<N: Name>(names: &[At<N>]) -> String {
    let names: Vec<&str> = names.iter().map(|name| name.value.text()).collect();
    sorted(&names)
}

/// A pointer may hold what separates it from the next; then it is quoted.
fn pointed(pointers: &[String]) -> String {
    let quoted = |pointer: &String| {
        if pointer.contains([',', '"']) {
            format!("{pointer:?}")
        } else {
            pointer.clone()
        }
    };
    sorted(&pointers.iter().map(quoted).collect::<Vec<_>>())
}

/// The order of a list means nothing.
fn sorted(texts: &[impl AsRef<str>]) -> String {
    let mut texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    texts.sort_unstable();
    texts.join(", ")
}
