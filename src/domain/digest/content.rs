//! A content as it was sent, read under the rule that says what of it counts.

use bytes::Bytes;

use super::fields::{FieldHashes, Fields};
use super::json::Json;
use super::pointer::Pointer;
use super::{ContentDigest, DigestScheme, canonical, read_json};
use crate::domain::ids::Mark;
use crate::domain::invalid::Invalid;
use crate::domain::machine::DigestRule;
use crate::domain::request::Move;

/// A content in the form in which it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given<'a> {
    /// A JSON text.
    Json(&'a [u8]),
    /// Any bytes; none: the message says nothing.
    Raw(&'a [u8]),
    /// A digest made by the caller.
    Digest(&'a [u8]),
}

/// A content as it was sent, kept to be read again: the rule that counts is known for sure only where it is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// A JSON text.
    Json(Bytes),
    /// Any bytes.
    Raw(Bytes),
    /// A digest made by the caller.
    Digest(Bytes),
}

impl Sent {
    /// To be read.
    pub fn given(&self) -> Given<'_> {
        match self {
            Self::Json(text) => Given::Json(text),
            Self::Raw(bytes) => Given::Raw(bytes),
            Self::Digest(digest) => Given::Digest(digest),
        }
    }

    /// The path of its field.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Json(_) => "intent.json",
            Self::Raw(_) => "intent.raw",
            Self::Digest(_) => "intent.digest",
        }
    }
}

/// What is known of a content once it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// What is kept of it, by the newest scheme.
    pub digest: ContentDigest,
    /// What else is of use while its request is judged.
    pub beside: Beside,
}

/// What is known of a content beside its digest, while its request is judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Digests of the same content by schemes that are no longer written: a record is compared by the scheme that it was
    /// written with. JSON has had one scheme so far, so there are none yet.
    older: Vec<ContentDigest>,
    /// The rule that it was read under.
    rule: DigestRule,
    /// The content itself, if it may have to be read under another rule.
    sent: Option<Sent>,
    /// `None`: it has none that could be named.
    fields: Option<Fields>,
    /// It says something: two operations with such a content hardly have it by chance.
    says_something: bool,
}

impl Content {
    /// Reads a content. `rule` says what of it counts.
    pub fn read(given: Given<'_>, rule: &DigestRule) -> Result<Self, Invalid> {
        let mut content = Self::read_under(given, rule)?;
        content.beside.rule = rule.clone();
        Ok(content)
    }

    /// The same, kept to be read again.
    #[must_use]
    pub fn keeping(mut self, sent: Sent) -> Self {
        self.beside.sent = Some(sent);
        self
    }

    fn read_under(given: Given<'_>, rule: &DigestRule) -> Result<Self, Invalid> {
        match (given, rule) {
            (Given::Raw([]), DigestRule::None) => Ok(Self::none()),
            (Given::Json(_) | Given::Raw(_) | Given::Digest(_), DigestRule::None) => Err(
                Invalid::new("must be absent or an empty raw: the event compares no content"),
            ),
            (Given::Json(text), DigestRule::Whole) => {
                let whole = read_json(text)?;
                Ok(Self::of(&canonical::form(&whole), &[("", &whole)]))
            }
            (Given::Json(text), DigestRule::Exclude(pointers)) => {
                let mut whole = read_json(text)?;
                for pointer in Pointer::parse_all(pointers)? {
                    pointer.leave_out(&mut whole);
                }
                Ok(Self::of(&canonical::form(&whole), &[("", &whole)]))
            }
            (Given::Json(text), DigestRule::Include(pointers)) => {
                let whole = read_json(text)?;
                let pointers = Pointer::parse_all(pointers)?;
                let parts = pointers
                    .iter()
                    .map(|pointer| match pointer.find(&whole) {
                        Some(part) => Ok((pointer.as_str(), part)),
                        None => Err(nothing_at(pointer, &whole)),
                    })
                    .collect::<Result<Vec<_>, _>>()?;
                Ok(Self::of(&canonical::form_of_parts(&parts), &parts))
            }
            (Given::Raw([]), DigestRule::Include(pointers)) => Err(Invalid::new(format!(
                "is empty, so it has no {:?}, which the event compares: send the message as JSON",
                pointers.first().map_or("", String::as_str)
            ))),
            (Given::Raw([_, ..]), DigestRule::Include(_) | DigestRule::Exclude(_)) => {
                Err(Invalid::new(
                    "is bytes, of which no part can be named, but the event compares parts of its content: send it as \
                     JSON, or send a digest of your own over the parts that count",
                ))
            }
            (Given::Raw(bytes), DigestRule::Whole | DigestRule::Exclude(_)) => Ok(Self::plain(
                ContentDigest::of_raw(bytes)?,
                !bytes.is_empty(),
            )),
            // Whoever makes a digest has chosen the parts already.
            (
                Given::Digest(digest),
                DigestRule::Whole | DigestRule::Include(_) | DigestRule::Exclude(_),
            ) => Ok(Self::plain(ContentDigest::given(digest)?, true)),
        }
    }

    /// Of a message that says nothing about its content.
    pub fn none() -> Self {
        Self::plain(ContentDigest::none(), false)
    }

    fn of(form: &[u8], parts: &[(&str, &Json<'_>)]) -> Self {
        Self {
            digest: ContentDigest::hashed(DigestScheme::JsonV1, form),
            beside: Beside {
                fields: Some(Fields::of(parts)),
                says_something: parts.iter().any(|(_, part)| part.says_something()),
                ..Beside::default()
            },
        }
    }

    fn plain(digest: ContentDigest, says_something: bool) -> Self {
        Self {
            digest,
            beside: Beside {
                says_something,
                ..Beside::default()
            },
        }
    }
}

fn nothing_at(pointer: &Pointer, whole: &Json<'_>) -> Invalid {
    let why = match whole {
        Json::String(_) => {
            "; it is one JSON string: if that holds the message as text, send the text within as JSON"
        }
        Json::Null
        | Json::Bool(_)
        | Json::Number(_)
        | Json::Array(_)
        | Json::Object(_)
        | Json::LeftOut => {
            "; send it, `null` if there is no value, or leave it out of the event's digest"
        }
    };
    Invalid::new(format!(
        "has nothing at {pointer}, which the event compares{why}"
    ))
}

impl Beside {
    /// Whether a stored digest is that of this content. `digest` is the content's own, by the newest scheme.
    pub(in crate::domain) fn is_same(
        &self,
        digest: &ContentDigest,
        stored: &ContentDigest,
    ) -> bool {
        digest == stored || self.older.contains(stored)
    }

    /// Whether a digest of this content is the one that it has under a rule: then it may be compared with others made under it.
    pub(in crate::domain) fn is_under(&self, digest: &ContentDigest, rule: &DigestRule) -> bool {
        match (digest.scheme(), rule) {
            (DigestScheme::JsonV1, DigestRule::None)
            | (DigestScheme::Raw, DigestRule::Whole | DigestRule::Exclude(_) | DigestRule::None)
            | (DigestScheme::Caller | DigestScheme::None, _) => true,
            (
                DigestScheme::JsonV1,
                DigestRule::Whole | DigestRule::Include(_) | DigestRule::Exclude(_),
            )
            | (DigestScheme::Raw, DigestRule::Include(_)) => self.rule == *rule,
        }
    }

    /// The content, if it was kept.
    pub(in crate::domain) fn sent(&self) -> Option<&Sent> {
        self.sent.as_ref()
    }

    /// Whether two operations with this content hardly have it by chance.
    pub(in crate::domain) fn says_something(&self) -> bool {
        self.says_something
    }

    /// What is kept of its fields with an operation.
    pub(in crate::domain) fn hashes(&self, salt: Mark, movement: Option<&Move>) -> FieldHashes {
        match &self.fields {
            Some(fields) => FieldHashes::new(fields, salt, movement),
            None if self.says_something => FieldHashes::without_fields(movement),
            None => FieldHashes::default(),
        }
    }

    /// Where it differs from the content that the hashes were kept of; nothing if either has no fields.
    pub(in crate::domain) fn differing(
        &self,
        stored: &ContentDigest,
        kept: &FieldHashes,
        salt: Mark,
    ) -> Vec<String> {
        match (&self.fields, stored.scheme()) {
            (Some(fields), DigestScheme::JsonV1) => kept.differing(fields, salt),
            (None, _)
            | (Some(_), DigestScheme::Raw | DigestScheme::Caller | DigestScheme::None) => {
                Vec::new()
            }
        }
    }

    /// The same, which older schemes gave these digests to.
    #[cfg(test)]
    pub(in crate::domain) fn with_older(mut self, older: ContentDigest) -> Self {
        self.older.push(older);
        self
    }
}
