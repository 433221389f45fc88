//! Names: of resources, operations, requests, rounds, states and identity values.
//!
//! Each is parsed once, at the edge; inside, a name that breaks its limits does not exist. Nothing is ever cut short: a name
//! over its limit is refused, so that two long names can never become one.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use super::invalid::Invalid;

mod reservation;

pub use reservation::ReservationId;

/// Longest kind, state name and identity name, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Longest resource id, in bytes.
pub const RESOURCE_ID_BYTES_MAX: usize = 512;
/// Longest operation id, in bytes.
pub const OPERATION_ID_BYTES_MAX: usize = 256;
/// Longest identity value, in bytes.
pub const IDENTITY_VALUE_BYTES_MAX: usize = 256;
/// Longest holder name, in bytes.
pub const HOLDER_BYTES_MAX: usize = 256;
/// Longest reason that a person gives, in bytes.
pub const REASON_BYTES_MAX: usize = 1024;

/// A short plain name: a kind, a state or the name of an identity value.
fn plain_name(text: &str) -> Result<Arc<str>, Invalid> {
    if text.is_empty() {
        return Err(Invalid::new("is required"));
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(Invalid::new(format!(
            "is {} bytes long; the limit is {NAME_BYTES_MAX}",
            text.len()
        )));
    }
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    let goes_on = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if !starts_well || !text.chars().all(goes_on) {
        return Err(Invalid::new(
            "may hold only A-Z a-z 0-9 _ . - and must begin with a letter or digit",
        ));
    }
    Ok(text.into())
}

/// Free text up to a limit, kept exactly as it came.
fn free_text(text: &str, limit: usize) -> Result<Arc<str>, Invalid> {
    if text.is_empty() {
        return Err(Invalid::new("is required"));
    }
    if text.len() > limit {
        return Err(Invalid::new(format!(
            "is {} bytes long; the limit is {limit}",
            text.len()
        )));
    }
    if text.contains('\0') {
        return Err(Invalid::new("must not contain NUL"));
    }
    Ok(text.into())
}

macro_rules! text_newtype {
    ($(#[$doc:meta])* $name:ident, $parse:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the limits.
            pub fn parse(text: &str) -> Result<Self, Invalid> {
                let parse: fn(&str) -> Result<Arc<str>, Invalid> = $parse;
                parse(text).map(Self)
            }

            /// The name as it came.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

text_newtype!(
    /// The kind of a resource, such as `order`.
    Kind,
    plain_name
);
text_newtype!(
    /// A state of a machine, or of a resource judged without one.
    StateName,
    plain_name
);
text_newtype!(
    /// An event of a machine: what a message says has happened.
    EventName,
    plain_name
);
text_newtype!(
    /// The name of an identity value, such as `payment_attempt_id`.
    IdentityName,
    plain_name
);
text_newtype!(
    /// An identity value. Compared, never shown in explanations.
    IdentityValue,
    |text| free_text(text, IDENTITY_VALUE_BYTES_MAX)
);
text_newtype!(
    /// The sender's stable key of one business action, scoped to its resource.
    OperationId,
    |text| {
        let parsed = free_text(text, OPERATION_ID_BYTES_MAX)?;
        if parsed.trim().is_empty() {
            return Err(Invalid::new(
                "is blank; every caller without a key of its own would share one record",
            ));
        }
        Ok(parsed)
    }
);
text_newtype!(
    /// Who holds a reservation, for people. Never compared.
    Holder,
    |text| free_text(text, HOLDER_BYTES_MAX)
);
text_newtype!(
    /// Why a person decided what they did, in their own words.
    Reason,
    |text| {
        let parsed = free_text(text, REASON_BYTES_MAX)?;
        if parsed.trim().is_empty() {
            return Err(Invalid::new("is required: say in a few words what was found and done"));
        }
        Ok(parsed)
    }
);

/// What is coordinated. No two ids collide and none contains another: both parts are compared whole.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId {
    kind: Kind,
    id: Arc<str>,
}

impl ResourceId {
    /// Parses the part of a resource that tells it from others of its kind.
    pub fn parse_id(text: &str) -> Result<Arc<str>, Invalid> {
        free_text(text, RESOURCE_ID_BYTES_MAX)
    }

    /// Joins a kind and an id; the id is checked here.
    pub fn new(kind: Kind, id: &str) -> Result<Self, Invalid> {
        Ok(Self {
            kind,
            id: Self::parse_id(id)?,
        })
    }

    /// The kind.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The id within the kind.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.id.escape_debug())
    }
}

impl fmt::Debug for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One attempt of a caller to reserve. A retry of that very call repeats it; everything else has another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(Uuid);

impl RequestId {
    /// Accepts random UUIDs (versions 4 and 7, say), refuses those made from a name: they are the message's key in disguise,
    /// and a second delivery to another worker would be taken for a retry of the first.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.is_empty() {
            return Err(Invalid::new(
                "is required: a fresh random UUID for each attempt",
            ));
        }
        let uuid = Uuid::try_parse(text).map_err(|_| Invalid::new("is not a UUID"))?;
        match uuid.get_version_num() {
            3 | 5 => Err(Invalid::new(
                "is a name-based UUID (version 3 or 5); it must be random and fresh for each attempt of yours",
            )),
            _ if uuid.is_nil() || uuid.is_max() => {
                Err(Invalid::new("is the nil or max UUID; it must be random"))
            }
            _ => Ok(Self(uuid)),
        }
    }

    /// From a stored record.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// For a stored record.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Drawn at random for each request that may write. A record that carries it was written by that very request, so a reply
/// that was lost can be told from somebody else's success.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce([u8; 16]);

impl Nonce {
    /// From random bytes or a stored record.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// For a stored record.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// From what was shown of it: 32 hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let shown = Uuid::try_parse(text).ok().filter(|_| text.len() == 32);
        let shown = shown.ok_or_else(|| Invalid::new("is not an id: 32 hexadecimal digits"))?;
        Ok(Self(shown.into_bytes()))
    }

    /// What a record keeps of it to recognise a write: its last bytes.
    pub fn mark(self) -> Mark {
        let [_, _, _, _, _, _, _, _, _, _, last @ ..] = self.0;
        Mark(last)
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Uuid::from_bytes(self.0).simple(), f)
    }
}

/// By which a request recognises its own write: the end of its nonce. It only tells apart the few requests that one operation or
/// one release of one resource may meet, so 48 random bits are plenty, and each operation stored is smaller by the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark([u8; 6]);

impl Mark {
    /// From a stored record.
    pub const fn from_bytes(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }

    /// For a stored record.
    pub fn as_bytes(&self) -> &[u8; 6] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_over_its_limit_is_refused_with_length_and_limit() {
        let error = ResourceId::parse_id(&"x".repeat(513))
            .unwrap_err()
            .to_string();
        assert_eq!(error, "is 513 bytes long; the limit is 512");
        assert!(
            ResourceId::parse_id("a\0b")
                .unwrap_err()
                .to_string()
                .contains("NUL")
        );
        assert!(ResourceId::parse_id("").is_err());
    }

    #[test]
    fn a_blank_operation_id_is_refused() {
        for blank in ["", " ", "\t\n", "\u{a0}"] {
            assert!(OperationId::parse(blank).is_err(), "{blank:?}");
        }
        for odd in ["null", "undefined", "0", " a "] {
            assert_eq!(OperationId::parse(odd).unwrap().as_str(), odd);
        }
    }

    #[test]
    fn a_request_id_made_from_a_name_is_refused() {
        assert!(RequestId::parse("6fa459ea-ee8a-3ca4-894e-db77e160355e").is_err());
        assert!(RequestId::parse("886313e1-3b8a-5372-9b90-0c9aee199e5d").is_err());
        assert!(RequestId::parse("00000000-0000-0000-0000-000000000000").is_err());
        assert!(RequestId::parse("f47ac10b-58cc-4372-a567-0e02b2c3d479").is_ok());
    }
}
