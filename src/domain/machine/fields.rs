//! Reading the keys of a mapping: known ones once, unknown ones refused.

use super::finding::{Findings, Rule, quoted};
use super::nearest::nearest;
use super::place::Place;
use super::yaml::{Content, Key, Node};

/// A mapping whose keys are all known.
pub(super) struct Fields<'a> {
    entries: &'a [(Key, Node)],
    place: Place,
    what: &'a str,
}

impl<'a> Fields<'a> {
    /// `what` names the mapping in findings. `None`: it is none.
    pub(super) fn read(
        node: &'a Node,
        what: &'a str,
        known: &[&str],
        findings: &mut Findings,
    ) -> Option<Self> {
        let entries = entries(node, what, findings)?;
        for (key, _) in entries {
            if known.contains(&key.text.as_str()) {
                continue;
            }
            let fix = nearest(&key.text, known.iter().copied()).map_or_else(
                || format!("remove it; known here: {}", known.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            findings.error(
                Rule::UnknownKey,
                key.place,
                format!("{what} has no key {}", quoted(&key.text)),
                fix,
            );
        }
        Some(Self {
            entries,
            place: node.place,
            what,
        })
    }

    /// Where the mapping begins.
    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// The value of a key, if it is said at all.
    pub(super) fn get(&self, name: &str) -> Option<&'a Node> {
        self.entry(name).map(|(_, node)| node)
    }

    /// A key and its value.
    pub(super) fn entry(&self, name: &str) -> Option<(&'a Key, &'a Node)> {
        let mut entries = self.entries.iter();
        entries
            .find(|(key, _)| key.text == name)
            .map(|(key, node)| (key, node))
    }

    /// The value of a key that must be there.
    pub(super) fn need(
        &self,
        name: &str,
        example: &str,
        findings: &mut Findings,
    ) -> Option<&'a Node> {
        let found = self.get(name);
        if found.is_none() {
            findings.error(
                Rule::Missing,
                self.place,
                format!("{} does not say its {name}", self.what),
                format!("add `{name}: {example}`"),
            );
        }
        found
    }
}

/// The entries of a mapping whose keys are names. An empty value counts as an empty mapping.
pub(super) fn entries<'a>(
    node: &'a Node,
    what: &str,
    findings: &mut Findings,
) -> Option<&'a [(Key, Node)]> {
    match &node.content {
        Content::Map(entries) => Some(entries),
        Content::Scalar { .. } if node.is_empty() => Some(&[]),
        Content::Scalar { .. } | Content::List(_) => {
            findings.error(
                Rule::Value,
                node.place,
                format!("{what} is {}, not a mapping", node.sort()),
                "write `key: value` pairs, or {} for none",
            );
            None
        }
    }
}
