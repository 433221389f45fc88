//! One event of a machine file.

use std::time::Duration;

use super::definition::{
    CLAIM_SECONDS, DigestRule, EVENT_IDENTITY_NAMES_MAX, Effect, Event, Interrupted, OtherRound,
    Otherwise, RETRY_WINDOW, Upstream, WhileHeld, Words,
};
use super::fields::{Fields, entries};
use super::finding::{Findings, Rule};
use super::place::{At, Place};
use super::values::{duration, name, name_of, names, pointer, pointers, word};
use super::yaml::{Content, Node};
use crate::domain::ids::{EventName, IdentityName, StateName};

const EVENT_KEYS: &[&str] = &[
    "creates",
    "from",
    "to",
    "matches",
    "sets",
    "clears",
    "digest",
    "interrupted",
    "early",
    "otherwise",
    "origin",
    "while_held",
    "upstream",
    "second_key",
    "other_round",
    "claim",
];
const DIGEST_KEYS: &[&str] = &["include", "exclude"];
const UPSTREAM_KEYS: &[&str] = &["key", "receipt", "retry_window", "on_refusal"];
/// The word for a digest of nothing.
const NO_DIGEST: &str = "none";

/// Reads it as far as it can be read. `None`: what it does to the state cannot be told.
pub(super) fn read(name: At<EventName>, node: &Node, findings: &mut Findings) -> Option<Event> {
    let what = format!("event {}", name.value);
    // A key that is not known may be meant for one of those below.
    let read = |findings: &mut Findings| Fields::read(node, &what, EVENT_KEYS, findings);
    let fields = findings.relied_on(read)?;
    if let Some((early, _)) = fields.entry("early") {
        findings.error(
            Rule::NotYet,
            early.place,
            "`early` needs timers, which this version of Fencepost does not have",
            "remove it: what comes too early is answered TOO_EARLY, and the sender asks again",
        );
    }
    let effect = findings.relied_on(|findings| effect(&name, &fields, findings));
    let identity = |key: &str, findings: &mut Findings| -> Vec<At<IdentityName>> {
        let node = fields.get(key);
        node.map_or_else(Vec::new, |node| {
            findings.relied_on(|findings| names(key, node, findings))
        })
    };
    let matches = identity("matches", findings);
    let sets = identity("sets", findings);
    let clears = identity("clears", findings);
    if matches.len() + sets.len() > EVENT_IDENTITY_NAMES_MAX {
        findings.error(
            Rule::Limit,
            name.place,
            format!(
                "{what} matches and sets {} identity names",
                matches.len() + sets.len()
            ),
            format!("the limit is {EVENT_IDENTITY_NAMES_MAX}; keep what proves the round"),
        );
    }
    let digest = fields
        .get("digest")
        .map_or_else(DigestRule::default, |node| digest(node, findings));
    let interrupted = said(&fields, "interrupted", name.place, findings);
    if interrupted.value == Interrupted::Defer {
        findings.warning(
            Rule::NotYet,
            interrupted.place,
            "`interrupted: defer` is treated as `ask` until Fencepost has tasks",
            "write ask for now, or leave it",
        );
    }
    let otherwise = fields
        .get("otherwise")
        .map_or_else(Vec::new, |node| otherwise(node, findings));
    let while_held: At<WhileHeld> = said(&fields, "while_held", name.place, findings);
    let upstream = fields
        .entry("upstream")
        .and_then(|(key, node)| upstream(key.place, node, findings));
    let (least, most) = CLAIM_SECONDS;
    let bounds = (
        Duration::from_secs(least.into()),
        Duration::from_secs(most.into()),
    );
    let claim = fields
        .get("claim")
        .and_then(|node| duration("claim", node, bounds, findings));
    Some(Event {
        effect: effect?,
        matches,
        sets,
        clears,
        digest,
        interrupted,
        otherwise,
        origin: said(&fields, "origin", name.place, findings).value,
        while_held,
        upstream,
        second_key: said(&fields, "second_key", name.place, findings).value,
        other_round: said::<OtherRound>(&fields, "other_round", name.place, findings).value,
        claim: claim.map(|claim| claim.value),
        name,
    })
}

/// The word that a key has, or what holds unsaid.
fn said<W: Words>(fields: &Fields<'_>, key: &str, unsaid: Place, findings: &mut Findings) -> At<W> {
    fields
        .get(key)
        .and_then(|node| word(key, node, findings))
        .unwrap_or_else(|| At::new(W::unsaid(), unsaid))
}

fn effect(name: &At<EventName>, fields: &Fields<'_>, findings: &mut Findings) -> Option<Effect> {
    let Some((creates, node)) = fields.entry("creates") else {
        return moves_or_stays(name, fields, findings);
    };
    for key in ["from", "to"] {
        if let Some((other, _)) = fields.entry(key) {
            findings.error(
                Rule::Contradiction,
                other.place,
                format!(
                    "event {} has `creates` (at {}) and `{key}`: what it creates was nowhere before",
                    name.value, creates.place
                ),
                format!("remove `{key}`, or make two events of it"),
            );
        }
    }
    Some(Effect::Creates(self::name::<StateName>(node, findings)?))
}

fn moves_or_stays(
    name: &At<EventName>,
    fields: &Fields<'_>,
    findings: &mut Findings,
) -> Option<Effect> {
    let Some(from) = fields.get("from") else {
        findings.error(
            Rule::Missing,
            name.place,
            format!("event {} says neither `creates` nor `from`", name.value),
            "add `creates: STATE`, or `from: [STATE, …]` with the states in which it is allowed",
        );
        return None;
    };
    let from = names("from", from, findings);
    match fields.get("to") {
        None => Some(Effect::Stays { from }),
        Some(to) => Some(Effect::Moves {
            from,
            to: self::name(to, findings)?,
        }),
    }
}

fn digest(node: &Node, findings: &mut Findings) -> DigestRule {
    match &node.content {
        Content::Scalar { text, .. } if text == NO_DIGEST => return DigestRule::None,
        Content::Map(_) => {}
        Content::Scalar { .. } | Content::List(_) => {
            findings.error(
                Rule::Value,
                node.place,
                format!("`digest` is {}", node.sort()),
                "write none, { include: [/amount] } or { exclude: [/sent_at] }",
            );
            return DigestRule::default();
        }
    }
    let Some(fields) = Fields::read(node, "`digest`", DIGEST_KEYS, findings) else {
        return DigestRule::default();
    };
    match (fields.get("include"), fields.entry("exclude")) {
        (Some(_), Some((exclude, _))) => findings.error(
            Rule::Contradiction,
            exclude.place,
            "`digest` has both `include` and `exclude`",
            "keep one: what is not included is excluded",
        ),
        (Some(node), None) => return DigestRule::Include(pointers("include", node, findings)),
        (None, Some((_, node))) => {
            return DigestRule::Exclude(pointers("exclude", node, findings));
        }
        (None, None) => findings.error(
            Rule::Missing,
            node.place,
            "`digest` says neither `include` nor `exclude`",
            "say one, or remove `digest`: then the whole content counts",
        ),
    }
    DigestRule::default()
}

fn otherwise(node: &Node, findings: &mut Findings) -> Vec<(At<StateName>, Otherwise)> {
    let entries = entries(node, "`otherwise`", findings).unwrap_or_default();
    let mut read = Vec::new();
    for (key, node) in entries {
        let state = name_of(&key.text, key.place, findings);
        let said = word("otherwise", node, findings).map(|said| said.value);
        read.extend(state.zip(said));
    }
    read
}

fn upstream(place: Place, node: &Node, findings: &mut Findings) -> Option<Upstream> {
    let fields = Fields::read(node, "`upstream`", UPSTREAM_KEYS, findings)?;
    Some(Upstream {
        place,
        key: fields
            .get("key")
            .and_then(|node| pointer("key", node, findings)),
        receipt: said(&fields, "receipt", place, findings).value,
        retry_window: fields
            .get("retry_window")
            .and_then(|node| duration("retry_window", node, RETRY_WINDOW, findings)),
        on_refusal: said(&fields, "on_refusal", place, findings).value,
    })
}
