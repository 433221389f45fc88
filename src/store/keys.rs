//! Every key. No other file knows how one is spelled.
//!
//! ```text
//! {prefix}r/{kind}/{id}               the record of a resource
//! {prefix}h/{kind}/{id}               its reservation, on a lease
//! {prefix}o/{kind}/{id}/{operation}   a finished operation that has left the record
//! {prefix}i/{incident}                an incident
//! {prefix}m/{kind}                    the machine in force for a kind
//! {prefix}mh/{kind}/{version}         a version of it, kept for good
//! {prefix}meta/timeline               the timeline
//! ```
//!
//! A `/` inside an id is escaped, so that the number of parts of a key is fixed by its family: two resources never share
//! a key, and what stands below one is never another. Keys are only ever addressed whole, but for the incidents and the
//! machines, which are listed by range.

use crate::domain::decision::IncidentId;
use crate::domain::ids::{Kind, OperationId, ResourceId};
use crate::domain::invalid::Invalid;
use crate::domain::machine::MachineVersion;

/// Longest prefix, in bytes, the closing `/` included.
pub const PREFIX_BYTES_MAX: usize = 128;
/// The prefix of those who do not choose one.
pub const PREFIX_DEFAULT: &str = "/fencepost/";
/// How many bytes the spelling of an escaped byte takes.
const ESCAPED_BYTES: usize = 3;

/// What every key begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix(String);

impl Prefix {
    /// Checks it; a missing `/` at the end is added.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if !text.starts_with('/') {
            return Err(Invalid::new("must begin with /, such as /fencepost/"));
        }
        if let Some(odd) = text.chars().find(|c| !c.is_ascii_graphic()) {
            return Err(Invalid::new(format!(
                "contains {odd:?}; it may hold only printable ASCII without spaces"
            )));
        }
        let mut prefix = text.to_owned();
        if !prefix.ends_with('/') {
            prefix.push('/');
        }
        if prefix.len() > PREFIX_BYTES_MAX {
            return Err(Invalid::new(format!(
                "is {} bytes long with its closing /; the limit is {PREFIX_BYTES_MAX}",
                prefix.len()
            )));
        }
        Ok(Self(prefix))
    }

    /// The prefix as it is used, with its closing `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Prefix {
    fn default() -> Self {
        Self(PREFIX_DEFAULT.to_owned())
    }
}

/// One key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    text: String,
    prefix_len: usize,
}

impl Key {
    /// For a request.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.text.as_bytes().to_vec()
    }

    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Without the prefix, so that a tree copied to another prefix stays valid.
    pub(super) fn relative(&self) -> &str {
        self.text.get(self.prefix_len..).unwrap_or_default()
    }

    /// For errors and logs.
    pub(super) fn printable(&self) -> String {
        self.text.escape_debug().to_string()
    }
}

/// Spells keys under one prefix.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: Prefix,
}

impl Keys {
    pub(super) fn new(prefix: Prefix) -> Self {
        Self { prefix }
    }

    pub(super) fn record(&self, resource: &ResourceId) -> Key {
        self.of_resource("r", resource)
    }

    pub(super) fn reservation(&self, resource: &ResourceId) -> Key {
        self.of_resource("h", resource)
    }

    pub(super) fn operation(&self, resource: &ResourceId, operation: &OperationId) -> Key {
        let mut key = self.of_resource("o", resource);
        key.text.push('/');
        escape_into(&mut key.text, operation.as_str());
        key
    }

    pub(super) fn incident(&self, incident: &IncidentId) -> Key {
        let mut key = self.key("i/");
        escape_into(&mut key.text, &incident.0);
        key
    }

    /// From just behind an incident (or before the first) to behind the last.
    pub(super) fn incidents_after(&self, after: Option<&IncidentId>) -> (Vec<u8>, Vec<u8>) {
        let start = match after {
            None => self.key("i/").bytes(),
            Some(incident) => just_after(self.incident(incident).bytes()),
        };
        // '0' is the byte that follows '/'.
        (start, self.key("i0").bytes())
    }

    /// The key of an incident as a range answered it. `None`: it is not spelled as we spell.
    pub(super) fn found_incident(&self, key: &[u8]) -> Option<(Key, IncidentId)> {
        let text = std::str::from_utf8(key).ok()?;
        let id = unescape(text.strip_prefix(&self.key("i/").text)?)?;
        let id = IncidentId(id);
        let key = self.incident(&id);
        (key.text == text).then_some((key, id))
    }

    pub(super) fn machine(&self, kind: &Kind) -> Key {
        let mut key = self.key("m/");
        key.text.push_str(kind.as_str());
        key
    }

    /// Digits to the full width, so that the order of keys is that of versions.
    pub(super) fn machine_version(&self, kind: &Kind, version: MachineVersion) -> Key {
        let mut key = self.key("mh/");
        key.text.push_str(kind.as_str());
        key.text.push_str(&format!("/{:010}", version.get()));
        key
    }

    /// From the first machine in force to behind the last.
    pub(super) fn machines(&self) -> (Vec<u8>, Vec<u8>) {
        // '0' is the byte that follows '/'.
        (self.key("m/").bytes(), self.key("m0").bytes())
    }

    /// From the first version of a kind's machine to behind the last.
    pub(super) fn machine_versions(&self, kind: &Kind) -> (Vec<u8>, Vec<u8>) {
        let of = |end: &str| self.key(&format!("mh/{kind}{end}")).bytes();
        (of("/"), of("0"))
    }

    /// The key of a machine in force as a range answered it. `None`: it is not spelled as we spell.
    pub(super) fn found_machine(&self, key: &[u8]) -> Option<(Key, Kind)> {
        let text = std::str::from_utf8(key).ok()?;
        let kind = Kind::parse(text.strip_prefix(&self.key("m/").text)?).ok()?;
        Some((self.machine(&kind), kind))
    }

    /// A key as a range answered it, for its value's checksum.
    pub(super) fn found(&self, key: &[u8]) -> Option<Key> {
        let text = std::str::from_utf8(key).ok()?;
        Some(self.key(text.strip_prefix(self.prefix.as_str())?))
    }

    pub(super) fn timeline(&self) -> Key {
        self.key("meta/timeline")
    }

    fn of_resource(&self, family: &str, resource: &ResourceId) -> Key {
        let mut key = self.key(family);
        key.text.push('/');
        // A kind is a plain name: it holds nothing that would have to be escaped.
        key.text.push_str(resource.kind().as_str());
        key.text.push('/');
        escape_into(&mut key.text, resource.id());
        key
    }

    fn key(&self, rest: &str) -> Key {
        let prefix = self.prefix.as_str();
        let mut text = String::with_capacity(prefix.len() + rest.len() + 64);
        text.push_str(prefix);
        text.push_str(rest);
        Key {
            text,
            prefix_len: prefix.len(),
        }
    }
}

/// The least key above this one.
pub(super) fn just_after(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

fn must_be_escaped(c: char) -> bool {
    c <= ' ' || c == '\u{7f}' || c == '/' || c == '%'
}

fn escape_into(text: &mut String, id: &str) {
    for c in id.chars() {
        if must_be_escaped(c) {
            text.push_str(&format!("%{:02X}", u32::from(c)));
        } else {
            text.push(c);
        }
    }
}

fn unescape(text: &str) -> Option<String> {
    let mut id = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let (plain, escaped) = rest.split_at(at);
        let byte = u8::from_str_radix(escaped.get(1..ESCAPED_BYTES)?, 16).ok()?;
        id.push_str(plain);
        id.push(char::from(byte));
        rest = escaped.get(ESCAPED_BYTES..)?;
    }
    id.push_str(rest);
    Some(id)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys() -> Keys {
        Keys::new(Prefix::default())
    }

    fn resource(kind: &str, id: &str) -> ResourceId {
        ResourceId::new(Kind::parse(kind).unwrap(), id).unwrap()
    }

    fn all_of(resource: &ResourceId, operation: &OperationId) -> [String; 3] {
        let keys = keys();
        [
            keys.record(resource).text,
            keys.reservation(resource).text,
            keys.operation(resource, operation).text,
        ]
    }

    #[test]
    fn keys_are_spelled_as_documented() {
        let order = resource("order", "a/1 %é\n");
        let operation = OperationId::parse("evt/1").unwrap();
        assert_eq!(
            all_of(&order, &operation),
            [
                "/fencepost/r/order/a%2F1%20%25é%0A",
                "/fencepost/h/order/a%2F1%20%25é%0A",
                "/fencepost/o/order/a%2F1%20%25é%0A/evt%2F1",
            ]
        );
        assert_eq!(keys().timeline().text, "/fencepost/meta/timeline");
        let incident = keys().incident(&IncidentId("inc-1".to_owned()));
        assert_eq!(incident.text, "/fencepost/i/inc-1");
        assert_eq!(incident.relative(), "i/inc-1");
        let kind = Kind::parse("order").unwrap();
        assert_eq!(keys().machine(&kind).text, "/fencepost/m/order");
        let version = MachineVersion::new(12).unwrap();
        assert_eq!(
            keys().machine_version(&kind, version).text,
            "/fencepost/mh/order/0000000012"
        );
    }

    #[test]
    fn the_versions_of_one_kind_are_a_range_of_their_own_and_so_are_the_machines() {
        let keys = keys();
        let kind = |text: &str| Kind::parse(text).unwrap();
        let version = |number: u32| MachineVersion::new(number).unwrap();
        let inside =
            |(start, end): (Vec<u8>, Vec<u8>), key: &Key| (start..end).contains(&key.bytes());
        let orders = || keys.machine_versions(&kind("order"));
        assert!(inside(
            orders(),
            &keys.machine_version(&kind("order"), version(MachineVersion::MAX))
        ));
        for other in ["order.", "order-1", "order0", "orde", "orders"] {
            assert!(
                !inside(orders(), &keys.machine_version(&kind(other), version(1))),
                "{other}"
            );
        }
        assert!(inside(keys.machines(), &keys.machine(&kind("zzz"))));
        let older = keys.machine_version(&kind("order"), version(1));
        assert!(!inside(keys.machines(), &older));
        assert_eq!(keys.found_machine(&older.bytes()), None);
        let (key, found) = keys.found_machine(b"/fencepost/m/order").unwrap();
        assert_eq!((key, found), (keys.machine(&kind("order")), kind("order")));
        assert_eq!(keys.found_machine(b"/fencepost/m/or der"), None);
    }

    #[test]
    fn a_prefix_is_closed_and_checked() {
        assert_eq!(Prefix::parse("/a").unwrap().as_str(), "/a/");
        assert_eq!(Prefix::parse("/a/").unwrap(), Prefix::parse("/a").unwrap());
        assert_eq!(Prefix::parse("/").unwrap().as_str(), "/");
        for bad in ["", "a/", "/a b/", "/é/", "/a\n"] {
            assert!(Prefix::parse(bad).is_err(), "{bad:?}");
        }
        assert!(Prefix::parse(&format!("/{}", "x".repeat(126))).is_ok());
        let error = Prefix::parse(&format!("/{}", "x".repeat(127))).unwrap_err();
        assert!(error.to_string().contains("129 bytes"), "{error}");
    }

    #[test]
    fn only_incident_keys_are_read_back_as_incidents() {
        let keys = keys();
        let id = IncidentId("inc 1/2".to_owned());
        let key = keys.incident(&id);
        assert_eq!(keys.found_incident(&key.bytes()), Some((key, id)));
        for foreign in [
            &b"/fencepost/i/a%2fb"[..],
            b"/fencepost/i/a%",
            b"/fencepost/i/a/b",
            b"/fencepost/i/\xff",
            b"/other/i/a",
        ] {
            assert_eq!(keys.found_incident(foreign), None, "{foreign:?}");
        }
    }

    /// Ids made of the characters that could make two keys meet.
    fn tricky() -> impl Strategy<Value = String> {
        prop_oneof![
            "[/%a2F0 .\\n\u{7f}]{1,6}",
            "\\PC{1,8}",
            "[\u{1}-\u{20}é🦀/]{1,5}",
        ]
    }

    proptest! {
        #[test]
        fn different_names_have_different_keys_and_none_lies_below_another(
            kinds in ("[ab]{1,2}", "[ab]{1,2}"),
            ids in (tricky(), tricky()),
            operations in ("[/%a2F1]{1,4}", "[/%a2F1]{1,4}"),
        ) {
            let first = resource(&kinds.0, &ids.0);
            let second = resource(&kinds.1, &ids.1);
            let first_operation = OperationId::parse(&operations.0).unwrap();
            let second_operation = OperationId::parse(&operations.1).unwrap();
            for (a, b) in all_of(&first, &first_operation)
                .iter()
                .zip(all_of(&second, &second_operation))
                .take(2)
            {
                prop_assert_eq!(*a == b, first == second);
            }
            let same = first == second && first_operation == second_operation;
            prop_assert_eq!(
                keys().operation(&first, &first_operation)
                    == keys().operation(&second, &second_operation),
                same
            );
            if first != second {
                for a in all_of(&first, &first_operation) {
                    for b in all_of(&second, &second_operation) {
                        prop_assert_ne!(&a, &b);
                        let below = format!("{a}/");
                        prop_assert!(!b.starts_with(&below), "{b} lies below {a}");
                    }
                }
            }
        }

        #[test]
        fn an_incident_key_is_read_back(id in tricky()) {
            let id = IncidentId(id);
            let key = keys().incident(&id);
            prop_assert!(!key.relative()[2..].contains('/'));
            prop_assert_eq!(keys().found_incident(&key.bytes()), Some((key, id)));
        }
    }
}
