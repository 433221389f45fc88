//! Every key. No other file knows how one is spelled.
//!
//! ```text
//! {prefix}r/{kind}/{id}               the record of a resource
//! {prefix}h/{kind}/{id}               its reservation, on a lease
//! {prefix}w/{kind}/{id}/{arrival}-{nonce}  one who waits for it, on the lease of its sidecar's session
//! {prefix}ws/{session}                such a session, on its lease
//! {prefix}o/{kind}/{id}/{operation}   a finished operation that has left the record
//! {prefix}i/{incident}                an incident
//! {prefix}m/{kind}                    the machine in force for a kind
//! {prefix}mh/{kind}/{version}         a version of it, kept for good
//! {prefix}meta/timeline               the timeline
//! {prefix}meta/timelines/{base}       that a person started a timeline, kept for good
//! {prefix}meta/probe                  written to see which revision etcd is at
//! {prefix}meta/clock                  the store's clock
//! {prefix}meta/sweep                  who looks through all keys, on a lease
//! ```
//!
//! A `/` inside an id is escaped, so that the number of parts of a key is fixed by its family: two resources never share
//! a key, and what stands below one is never another. Keys are addressed whole, but for incidents and machines, which are
//! listed by range, for the sweep, which looks through records, and through the operations of one, for the queue of a
//! resource, which is compared and followed as a range (its bounds end in a slash, so that it holds no key of another one), and for the
//! start of a timeline, which removes all reservations.

use crate::domain::decision::IncidentId;
use crate::domain::ids::{Kind, Nonce, OperationId, ResourceId};
use crate::domain::invalid::Invalid;
use crate::domain::machine::MachineVersion;
use crate::domain::waiter::WaiterName;

/// Longest prefix, in bytes, the closing `/` included.
pub const PREFIX_BYTES_MAX: usize = 128;
/// The prefix of those who do not choose one.
pub const PREFIX_DEFAULT: &str = "/fencepost/";
/// How many bytes the spelling of an escaped byte takes.
const ESCAPED_BYTES: usize = 3;
/// Families whose keys hang on the leases of rounds, or of those who wait, and end with their timeline.
const OF_A_TIMELINE: [&str; 2] = ["h", "w"];

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

    /// From the first reservation key to behind the last.
    pub(super) fn reservations(&self) -> (Vec<u8>, Vec<u8>) {
        (self.key("h/").bytes(), self.key("h0").bytes())
    }

    /// The resource of a reservation key as etcd answered it. `None`: it is not spelled as we spell.
    pub(super) fn found_reservation(&self, key: &[u8]) -> Option<ResourceId> {
        let text = std::str::from_utf8(key).ok()?;
        let (kind, id) = text.strip_prefix(&self.key("h/").text)?.split_once('/')?;
        let resource = ResourceId::new(Kind::parse(kind).ok()?, &unescape(id)?).ok()?;
        (self.reservation(&resource).text == text).then_some(resource)
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

    /// From just behind a key of a record (or before the first) to behind the last.
    pub(super) fn records_after(&self, after: Option<&[u8]>) -> (Vec<u8>, Vec<u8>) {
        let start = after.map_or_else(|| self.key("r/").bytes(), |key| just_after(key.to_vec()));
        (start, self.key("r0").bytes())
    }

    /// The key of a record as a range answered it. `None`: it is not spelled as we spell.
    pub(super) fn found_record(&self, key: &[u8]) -> Option<(Key, ResourceId)> {
        let text = std::str::from_utf8(key).ok()?;
        let (kind, id) = text.strip_prefix(&self.key("r/").text)?.split_once('/')?;
        let resource = ResourceId::new(Kind::parse(kind).ok()?, &unescape(id)?).ok()?;
        let key = self.record(&resource);
        (key.text == text).then_some((key, resource))
    }

    /// From just behind a key of a resource's operation (or before the first) to behind the last.
    pub(super) fn operations_after(
        &self,
        resource: &ResourceId,
        after: Option<&[u8]>,
    ) -> (Vec<u8>, Vec<u8>) {
        let mut all = self.of_resource("o", resource);
        let mut end = all.bytes();
        all.text.push('/');
        end.push(b'0');
        let start = after.map_or_else(|| all.bytes(), |key| just_after(key.to_vec()));
        (start, end)
    }

    /// The key of a resource's operation as a range answered it. `None`: it is not spelled as we spell.
    pub(super) fn found_operation(
        &self,
        resource: &ResourceId,
        key: &[u8],
    ) -> Option<(Key, OperationId)> {
        let mut all = self.of_resource("o", resource);
        all.text.push('/');
        let text = std::str::from_utf8(key).ok()?;
        let id = OperationId::parse(&unescape(text.strip_prefix(&all.text)?)?).ok()?;
        let key = self.operation(resource, &id);
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

    /// Digits to the full width, so that the order of keys is that of timelines.
    pub(super) fn timeline_start(&self, base: u64) -> Key {
        self.key(&format!("meta/timelines/{base:020}"))
    }

    /// From the first start of a timeline to behind the last.
    pub(super) fn timeline_starts(&self) -> (Vec<u8>, Vec<u8>) {
        let of = |end: &str| self.key(&format!("meta/timelines{end}")).bytes();
        (of("/"), of("0"))
    }

    /// Everything that ends with its timeline: each from its first key to behind its last.
    pub(super) fn of_a_timeline(&self) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
        let of = |family: &str, end: &str| self.key(&format!("{family}{end}")).bytes();
        OF_A_TIMELINE
            .iter()
            .map(move |family| (of(family, "/"), of(family, "0")))
    }

    pub(super) fn probe(&self) -> Key {
        self.key("meta/probe")
    }

    pub(super) fn clock(&self) -> Key {
        self.key("meta/clock")
    }

    pub(super) fn sweep(&self) -> Key {
        self.key("meta/sweep")
    }

    /// From the first of those who wait for a resource to behind the last.
    pub(super) fn waiters(&self, resource: &ResourceId) -> (Vec<u8>, Vec<u8>) {
        let all = self.of_resource("w", resource).bytes();
        // '0' is the byte that follows '/'.
        (
            [all.as_slice(), b"/"].concat(),
            [all.as_slice(), b"0"].concat(),
        )
    }

    /// One who waits. Digits to the full width, so that the order of keys is that of names.
    pub(super) fn waiter(&self, resource: &ResourceId, name: &WaiterName) -> Key {
        let mut key = self.of_resource("w", resource);
        let nonce = u128::from_be_bytes(*name.nonce.as_bytes());
        key.text
            .push_str(&format!("/{:016x}-{nonce:032x}", name.arrival));
        key
    }

    /// The key of one who waits for a resource, as a range answered it. `None`: it is not spelled as we spell.
    pub(super) fn found_waiter(
        &self,
        resource: &ResourceId,
        key: &[u8],
    ) -> Option<(Key, WaiterName)> {
        let mut all = self.of_resource("w", resource);
        all.text.push('/');
        let text = std::str::from_utf8(key).ok()?;
        let (arrival, nonce) = text.strip_prefix(&all.text)?.split_once('-')?;
        let nonce = u128::from_str_radix(nonce, 16).ok()?.to_be_bytes();
        let name = WaiterName {
            arrival: u64::from_str_radix(arrival, 16).ok()?,
            nonce: Nonce::from_bytes(nonce),
        };
        let key = self.waiter(resource, &name);
        (key.text == text).then_some((key, name))
    }

    /// The session of a sidecar whose callers wait.
    pub(super) fn wait_session(&self, session: Nonce) -> Key {
        let session = u128::from_be_bytes(*session.as_bytes());
        self.key(&format!("ws/{session:032x}"))
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

/// From the first part of the incident with this key to behind the last: a dot stands before the name of each, and the slash
/// is the byte behind it.
pub(super) fn parts_of_incident(key: &[u8]) -> (Vec<u8>, Vec<u8>) {
    ([key, b"."].concat(), [key, b"/"].concat())
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
mod tests;
