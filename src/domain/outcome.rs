//! The result of a side effect, as it is stored and replayed.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::invalid::Invalid;

/// Largest result body, in bytes.
pub const RESULT_BODY_BYTES_MAX: usize = 64 * 1024;
/// Longest content type, in bytes.
pub const CONTENT_TYPE_BYTES_MAX: usize = 256;
/// Most headers of one result.
pub const HEADERS_MAX: usize = 32;
/// Names and values of all headers together, in bytes.
pub const HEADERS_BYTES_MAX: usize = 8 * 1024;
/// Longest header name, in bytes.
pub const HEADER_NAME_BYTES_MAX: usize = 256;
/// Largest outward code.
pub const CODE_MAX: u32 = 999;

/// A result, replayed byte for byte. An empty one is a result too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredResult {
    /// What the effect said.
    pub body: Bytes,
    /// Outward code; 0: none.
    pub code: u32,
    /// Content type; empty: none.
    pub content_type: String,
    /// Headers, in the order sent.
    pub headers: Vec<(String, String)>,
}

impl StoredResult {
    /// Checks the limits. A result over them is refused before anything is stored. What passes holds bytes of its own.
    pub fn checked(mut self) -> Result<Self, Invalid> {
        let header_bytes: usize = self
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        let longest_name = self
            .headers
            .iter()
            .map(|(name, _)| name.len())
            .max()
            .unwrap_or(0);
        let over = |what: &str, size: usize, limit: usize| {
            Err(Invalid::new(format!("{what} {size}; the limit is {limit}")))
        };
        if self.body.len() > RESULT_BODY_BYTES_MAX {
            return Err(Invalid::new(format!(
                ".body is {} bytes; the limit is {RESULT_BODY_BYTES_MAX}: store the body yourself and a reference to it here",
                self.body.len()
            )));
        }
        if self.code > CODE_MAX {
            return Err(Invalid::new(format!(
                ".code is {}; it must be 0 to {CODE_MAX}",
                self.code
            )));
        }
        if self.content_type.len() > CONTENT_TYPE_BYTES_MAX {
            return over(
                ".content_type has bytes:",
                self.content_type.len(),
                CONTENT_TYPE_BYTES_MAX,
            );
        }
        if self.headers.len() > HEADERS_MAX {
            return over(".headers has entries:", self.headers.len(), HEADERS_MAX);
        }
        if self.headers.iter().any(|(name, _)| name.is_empty()) {
            return Err(Invalid::new(".headers has an entry without a name"));
        }
        if longest_name > HEADER_NAME_BYTES_MAX {
            return over(
                ".headers has a name with bytes:",
                longest_name,
                HEADER_NAME_BYTES_MAX,
            );
        }
        if header_bytes > HEADERS_BYTES_MAX {
            return over(
                ".headers has bytes of names and values:",
                header_bytes,
                HEADERS_BYTES_MAX,
            );
        }
        // It is kept long after the message that brought it, and a slice would keep all of the buffer that was received.
        self.body = Bytes::copy_from_slice(&self.body);
        Ok(self)
    }

    /// Whether it says nothing at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The SHA-256 of the body, by which whoever gets it can tell that it came whole.
    pub fn body_sha256(&self) -> [u8; 32] {
        Sha256::digest(&self.body).into()
    }

    /// A hash that tells it from every other result.
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            // Lengths keep ("ab", "c") and ("a", "bc") apart.
            hash.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(bytes);
        };
        part(&self.body);
        part(&self.code.to_be_bytes());
        part(self.content_type.as_bytes());
        for (name, value) in &self.headers {
            part(name.as_bytes());
            part(value.as_bytes());
        }
        hash.finalize().into()
    }

    /// How many bytes it takes, about.
    pub fn size(&self) -> usize {
        let headers: usize = self
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.len() + 4)
            .sum();
        self.body.len() + self.content_type.len() + headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_does_not_hold_on_to_the_message_that_brought_it() {
        let message = Bytes::from(vec![7; 1024]);
        let result = StoredResult {
            body: message.slice(10..20),
            ..StoredResult::default()
        };
        let kept = result.checked().unwrap();
        assert_eq!(kept.body[..], [7; 10]);
        // Nobody else has a part of it now.
        assert!(message.is_unique());
    }
}
