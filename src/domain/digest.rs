//! Content digests: do two messages under one key say the same?
//!
//! Two contents are the same exactly if their digests are equal in scheme *and* bytes. Nothing else of a content is
//! kept, so what a digest covers is a promise that outlives this code.
//!
//! | scheme  | code | digest bytes                                                        |
//! |---------|------|---------------------------------------------------------------------|
//! | JsonV1  | 1    | SHA-256 of the canonical form below: 32 bytes                       |
//! | Raw     | 2    | SHA-256 of the content, byte for byte: 32 bytes                     |
//! | Caller  | 3    | made by the caller and compared as given: 16 to 64 bytes            |
//! | None    | 4    | no content was ever asked for: no bytes                             |
//!
//! # JSON, contract v1
//!
//! Input: a JSON text (RFC 8259) of at most 1,048,576 bytes. The digest is the SHA-256 of the 18 ASCII bytes
//! `fencepost:json:v1` and line feed (0x0A), followed by the form `F` of the value:
//!
//! | value  | `F`                                                                                           |
//! |--------|-----------------------------------------------------------------------------------------------|
//! | null   | `n`                                                                                           |
//! | false  | `f`                                                                                           |
//! | true   | `t`                                                                                           |
//! | number | `#`, then `-` if it is below zero, the digits, `e`, the exponent, `;`                         |
//! | string | `"`, the length in bytes, `:`, the bytes: UTF-8 after unescaping, not normalised in any way   |
//! | array  | `[`, then `F` of each element in order, then `]`                                              |
//! | object | `{`, then for each member `F` of its name (a string) and `F` of its value, then `}`           |
//!
//! - Members stand in the order of their unescaped names, compared byte by byte as unsigned UTF-8; a name that is
//!   the beginning of another comes first. (This is code point order, not the UTF-16 order of RFC 8785.)
//! - A number is its exact decimal value: the digits are a whole number in base ten that neither begins nor ends
//!   with `0`, and the value is digits × 10^exponent. The exponent is written in base ten, with `-` if below zero,
//!   without `+`, without leading zeros. Zero, with any sign and exponent, is `#0e0;`. Numbers are never rounded
//!   and never expanded: 1, 1.0, 1e0 and 10e-1 are `#1e0;`, 1500 is `#15e2;`, -0.25 is `#-25e-2;`.
//! - A length is in base ten without leading zeros; the empty string is `"0:`.
//! - Nothing else is written: no white space, no commas, no colons between names and values.
//!
//! For example `{ "b": [1.0, "é"], "a": null }` has the form `{"1:an"1:b[#1e0;"2:é]}`.
//!
//! Where only parts of a content count, named by JSON Pointers:
//!
//! - *exclude*: what the pointers name is left out of the form, a member with its name; what is not there is no matter.
//! - *include*: the form is `&`, then for each pointer, in the order of their bytes, `F` of the pointer (a string) and `F`
//!   of the part, then `;`. A part that is not there is refused.
//!
//! Every form tells where it ends, so two different values never have the same form.
//!
//! Refused, each with the byte offset (from 0) where it was seen: a byte order mark, invalid UTF-8, a lone surrogate
//! (`"\ud800"`), two members of one object whose unescaped names are equal, arrays and objects nested more than 100
//! deep, an exponent of more than 18 digits not counting leading zeros, and everything RFC 8259 does not allow (an
//! empty text, NaN, leading zeros, control characters in strings, anything but white space after the value).
mod canonical;
mod content;
mod decimal;
mod fields;
mod json;
mod pointer;

use std::fmt;

pub use content::{Beside, Content, Given, Sent};
pub use fields::{
    FIELD_HASHES_BYTES_MAX, FIELDS_COMPARED_MAX, FIELDS_KEPT_MAX, FIELDS_TOLD_MAX, FieldHashes,
};
pub use json::LEVELS_MAX;

use sha2::{Digest, Sha256};

use self::json::Json;
use super::invalid::Invalid;

/// The most bytes of a content, JSON or raw.
pub const CONTENT_BYTES_MAX: usize = 1024 * 1024;
/// The fewest bytes of a digest made by the caller: shorter ones meet by chance.
pub const GIVEN_BYTES_MIN: usize = 16;
/// The most bytes of a digest made by the caller: SHA-512.
pub const GIVEN_BYTES_MAX: usize = 64;
/// How many bytes of a digest a log line shows.
const SHOWN_BYTES: usize = 8;
const SHA256_BYTES: usize = 32;

/// How a digest was made. Digests of different schemes are never equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DigestScheme {
    /// SHA-256 of the canonical form of a JSON text.
    JsonV1,
    /// SHA-256 of the bytes.
    Raw,
    /// Made by the caller.
    Caller,
    /// The operation is of a sort that carries no content.
    None,
}

impl DigestScheme {
    /// The number under which it is stored; it never changes.
    pub fn code(self) -> u8 {
        match self {
            Self::JsonV1 => 1,
            Self::Raw => 2,
            Self::Caller => 3,
            // Not 0, so that a zeroed byte in a record is damage and not "no content".
            Self::None => 4,
        }
    }

    /// The scheme stored under `code`.
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::JsonV1),
            2 => Some(Self::Raw),
            3 => Some(Self::Caller),
            4 => Some(Self::None),
            _ => None,
        }
    }

    fn allows_length(self, length: usize) -> bool {
        match self {
            Self::JsonV1 | Self::Raw => length == SHA256_BYTES,
            Self::Caller => (GIVEN_BYTES_MIN..=GIVEN_BYTES_MAX).contains(&length),
            Self::None => length == 0,
        }
    }
}

impl fmt::Display for DigestScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::JsonV1 => "json-v1",
            Self::Raw => "raw",
            Self::Caller => "caller",
            Self::None => "none",
        })
    }
}

/// What is kept of a content. Equal digests mean the same content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentDigest {
    scheme: DigestScheme,
    // Always of a length that the scheme allows.
    bytes: Box<[u8]>,
}

impl ContentDigest {
    /// Of a JSON text, by contract v1.
    pub fn of_json(text: &[u8]) -> Result<Self, Invalid> {
        let value = read_json(text)?;
        Ok(Self::hashed(DigestScheme::JsonV1, &canonical::form(&value)))
    }

    /// Of any bytes, also none.
    pub fn of_raw(content: &[u8]) -> Result<Self, Invalid> {
        within_limit(content)?;
        Ok(Self::hashed(DigestScheme::Raw, content))
    }

    /// Made by the caller.
    pub fn given(digest: &[u8]) -> Result<Self, Invalid> {
        Self::from_parts(DigestScheme::Caller, digest).ok_or_else(|| {
            Invalid::new(format!(
                "is {} bytes long; a digest has {GIVEN_BYTES_MIN} to {GIVEN_BYTES_MAX}",
                digest.len()
            ))
        })
    }

    /// For an operation of a sort that carries no content.
    pub fn none() -> Self {
        Self {
            scheme: DigestScheme::None,
            bytes: Box::default(),
        }
    }

    /// As found in a record. `None` if the scheme makes no digest of that length: the record is damaged.
    pub fn from_parts(scheme: DigestScheme, bytes: impl Into<Vec<u8>>) -> Option<Self> {
        let bytes = bytes.into();
        scheme.allows_length(bytes.len()).then(|| Self {
            scheme,
            bytes: bytes.into_boxed_slice(),
        })
    }

    /// How it was made.
    pub fn scheme(&self) -> DigestScheme {
        self.scheme
    }

    /// The digest itself, without the scheme.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn hashed(scheme: DigestScheme, bytes: &[u8]) -> Self {
        Self {
            scheme,
            bytes: Sha256::digest(bytes).as_slice().into(),
        }
    }
}

/// The scheme and the first bytes in hex: enough to tell two log lines apart, not to compare contents.
impl fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.scheme)?;
        let mut separator = ":";
        for byte in self.bytes.iter().take(SHOWN_BYTES) {
            write!(f, "{separator}{byte:02x}")?;
            separator = "";
        }
        Ok(())
    }
}

fn read_json(text: &[u8]) -> Result<Json<'_>, Invalid> {
    within_limit(text)?;
    if text.is_empty() {
        return Err(Invalid::new(
            "is empty, which is not JSON; for a message without content send an empty raw content",
        ));
    }
    Json::read(text).map_err(|fault| Invalid::new(fault.to_string()))
}

fn within_limit(content: &[u8]) -> Result<(), Invalid> {
    if content.len() > CONTENT_BYTES_MAX {
        return Err(Invalid::new(format!(
            "is {} bytes long; a content has at most {CONTENT_BYTES_MAX}. Send a digest of it instead",
            content.len()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
