//! Reading single values: names, words, numbers, durations, JSON Pointers.

use std::time::Duration;

use super::definition::{LIST_ITEMS_MAX, MachineVersion, POINTER_BYTES_MAX, Words};
use super::finding::{Findings, Rule, quoted};
use super::nearest::advice;
use super::place::{At, Place};
use super::yaml::{Content, Node};
use crate::domain::ids::{EventName, IdentityName, Kind, StateName};
use crate::domain::invalid::Invalid;

/// A name with limits of its own.
pub(super) trait Name: Sized + Clone + Eq + Ord {
    /// What it names, for people.
    const WHAT: &'static str;
    /// Checks the limits.
    fn parse(text: &str) -> Result<Self, Invalid>;
    /// The text.
    fn text(&self) -> &str;
}

macro_rules! name {
    ($name:ident, $what:literal) => {
        impl Name for $name {
            const WHAT: &'static str = $what;
            fn parse(text: &str) -> Result<Self, Invalid> {
                $name::parse(text)
            }
            fn text(&self) -> &str {
                self.as_str()
            }
        }
    };
}
name!(Kind, "kind");
name!(StateName, "state");
name!(EventName, "event");
name!(IdentityName, "identity name");

/// A text without white space around it.
fn scalar<'a>(node: &'a Node, what: &str, findings: &mut Findings) -> Option<&'a str> {
    match &node.content {
        Content::Scalar { text, .. } if !node.is_empty() => {
            tidy(text, node.place, what, findings).then_some(text)
        }
        Content::Scalar { .. } => {
            let what = format!("{what} is empty");
            findings.error(
                Rule::Value,
                node.place,
                what,
                "write a value, or remove the key",
            );
            None
        }
        Content::List(_) | Content::Map(_) => {
            findings.error(
                Rule::Value,
                node.place,
                format!("{what} is {}", node.sort()),
                "write a single value",
            );
            None
        }
    }
}

/// YAML keeps white space inside quotes: "paid " and "paid" would be two names that look alike.
fn tidy(text: &str, place: Place, what: &str, findings: &mut Findings) -> bool {
    let trimmed = text.trim();
    if trimmed == text {
        return true;
    }
    findings.error(
        Rule::StraySpace,
        place,
        format!("{what} {} has white space around it", quoted(text)),
        // Repeated only if it can neither flood nor command a terminal.
        match quoted(trimmed)
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
        {
            Some(plain) if plain == trimmed => format!("write {trimmed}, without quotes"),
            Some(_) | None => "remove the white space around it".to_owned(),
        },
    );
    false
}

/// A name as it was written at a place: as a key or as a value.
pub(super) fn name_of<N: Name>(text: &str, place: Place, findings: &mut Findings) -> Option<At<N>> {
    if !tidy(text, place, N::WHAT, findings) {
        return None;
    }
    match N::parse(text) {
        Ok(name) => Some(At::new(name, place)),
        Err(invalid) => {
            findings.error(
                Rule::Value,
                place,
                format!("{} {} {invalid}", N::WHAT, quoted(text)),
                "choose another name",
            );
            None
        }
    }
}

/// A single name.
pub(super) fn name<N: Name>(node: &Node, findings: &mut Findings) -> Option<At<N>> {
    let text = scalar(node, N::WHAT, findings)?;
    name_of(text, node.place, findings)
}

/// A list of names, each once. Broken ones are left out.
pub(super) fn names<N: Name>(key: &str, node: &Node, findings: &mut Findings) -> Vec<At<N>> {
    let mut read: Vec<At<N>> = Vec::new();
    let mut seen = std::collections::BTreeMap::new();
    for item in list(key, node, findings) {
        let Some(name) = name::<N>(item, findings) else {
            continue;
        };
        if let Some(first) = seen.insert(name.value.clone(), name.place) {
            findings.error(
                Rule::Duplicate,
                name.place,
                format!(
                    "`{key}` lists {} twice; the first is at {first}",
                    name.value.text()
                ),
                "remove one of them",
            );
            continue;
        }
        read.push(name);
    }
    read
}

fn list<'a>(key: &str, node: &'a Node, findings: &mut Findings) -> &'a [Node] {
    match &node.content {
        Content::List(items) if items.len() > LIST_ITEMS_MAX => {
            findings.error(
                Rule::Limit,
                node.place,
                format!("`{key}` lists {} items", items.len()),
                format!("the limit is {LIST_ITEMS_MAX}"),
            );
            &[]
        }
        Content::List(items) if !items.is_empty() => items,
        Content::List(_) => {
            findings.error(
                Rule::Value,
                node.place,
                format!("`{key}` is an empty list"),
                "list at least one, or remove the key",
            );
            &[]
        }
        Content::Scalar { .. } | Content::Map(_) => {
            findings.error(
                Rule::Value,
                node.place,
                format!("`{key}` is {}, not a list", node.sort()),
                format!("write `{key}: [a, b]`"),
            );
            &[]
        }
    }
}

/// One of a few words.
pub(super) fn word<W: Words>(key: &str, node: &Node, findings: &mut Findings) -> Option<At<W>> {
    let text = scalar(node, &format!("`{key}`"), findings)?;
    let found = W::WORDS.iter().find(|(word, _)| *word == text);
    if let Some((_, value)) = found {
        return Some(At::new(*value, node.place));
    }
    findings.error(
        Rule::Value,
        node.place,
        format!("`{key}` cannot be {}", quoted(text)),
        advice(text, W::WORDS.iter().map(|(word, _)| *word)),
    );
    None
}

/// `true` or `false`.
pub(super) fn truth(key: &str, node: &Node, findings: &mut Findings) -> Option<bool> {
    match &node.content {
        Content::Scalar { text, plain: true } if text == "true" => Some(true),
        Content::Scalar { text, plain: true } if text == "false" => Some(false),
        Content::Scalar { .. } | Content::List(_) | Content::Map(_) => {
            findings.error(
                Rule::Value,
                node.place,
                format!("`{key}` is {}", node.sort()),
                "write true or false",
            );
            None
        }
    }
}

/// A version: digits, without sign, quotes or leading zeros.
pub(super) fn version(node: &Node, findings: &mut Findings) -> Option<At<MachineVersion>> {
    let number = match &node.content {
        Content::Scalar { text, plain: true } if text.bytes().all(|b| b.is_ascii_digit()) => {
            text.parse().ok().filter(|_| !text.starts_with('0'))
        }
        Content::Scalar { .. } | Content::List(_) | Content::Map(_) => None,
    };
    let version = number.and_then(MachineVersion::new);
    if version.is_none() {
        findings.error(
            Rule::Value,
            node.place,
            format!("`version` is {}", node.sort()),
            format!(
                "write a whole number from 1 to {}, such as 1",
                MachineVersion::MAX
            ),
        );
    }
    version.map(|version| At::new(version, node.place))
}

/// A duration with a unit, between two bounds.
pub(super) fn duration(
    key: &str,
    node: &Node,
    (least, most): (Duration, Duration),
    findings: &mut Findings,
) -> Option<At<Duration>> {
    let text = scalar(node, &format!("`{key}`"), findings)?;
    let mut wrong = |what: &str, fix: String| {
        let what = format!("`{key}` is {}{what}", quoted(text));
        findings.error(Rule::Duration, node.place, what, fix);
        None
    };
    if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return wrong(
            ", without a unit",
            if text.len() <= 12 {
                format!("write {text}s, {text}m or {text}h, whichever is meant")
            } else {
                "write a duration, such as 30s, 15m, 96h or 1h 30m".to_owned()
            },
        );
    }
    let Ok(span) = humantime::parse_duration(text) else {
        return wrong(
            "",
            "write a duration, such as 30s, 15m, 96h or 1h 30m".to_owned(),
        );
    };
    if !(least..=most).contains(&span) {
        let bounds = format!(
            "write {} to {}",
            humantime::format_duration(least),
            humantime::format_duration(most)
        );
        return wrong(", which is out of bounds", bounds);
    }
    Some(At::new(span, node.place))
}

/// A JSON Pointer (RFC 6901) to a part of the content.
pub(super) fn pointer(key: &str, node: &Node, findings: &mut Findings) -> Option<String> {
    let text = scalar(node, &format!("`{key}`"), findings)?;
    let escapes_well = text
        .split('~')
        .skip(1)
        .all(|rest| rest.starts_with(['0', '1']));
    let (what, fix) = if text.len() > POINTER_BYTES_MAX {
        (
            format!("is {} bytes long", text.len()),
            format!("the limit is {POINTER_BYTES_MAX}; point to a part above it"),
        )
    } else if !text.starts_with('/') {
        (
            format!("is {}, not a JSON Pointer", quoted(text)),
            format!("begin each step with a slash: {}", quoted(&slashed(text))),
        )
    } else if !escapes_well {
        (
            format!("is {}, with a ~ that means nothing", quoted(text)),
            "write ~0 for ~ and ~1 for / inside a name".to_owned(),
        )
    } else {
        return Some(text.to_owned());
    };
    findings.error(Rule::Value, node.place, format!("`{key}` {what}"), fix);
    None
}

fn slashed(text: &str) -> String {
    let steps = text.trim_start_matches('$').trim_start_matches('.');
    std::iter::once("")
        .chain(steps.split('.'))
        .collect::<Vec<_>>()
        .join("/")
}

/// A list of JSON Pointers, none of which names what another has named already.
pub(super) fn pointers(key: &str, node: &Node, findings: &mut Findings) -> Vec<String> {
    let items = list(key, node, findings);
    let mut read: Vec<String> = Vec::new();
    for item in items {
        let Some(pointer) = pointer(key, item, findings) else {
            continue;
        };
        let covers = |outer: &str, inner: &str| {
            inner
                .strip_prefix(outer)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        match read
            .iter()
            .find(|other| covers(other, &pointer) || covers(&pointer, other))
        {
            Some(other) => findings.error(
                Rule::Duplicate,
                item.place,
                format!(
                    "`{key}` lists {} beside {}, and one covers the other",
                    quoted(&pointer),
                    quoted(other)
                ),
                "keep the one that is meant",
            ),
            None => read.push(pointer),
        }
    }
    read
}
