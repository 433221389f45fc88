//! Positions in etcd's history, and the tokens made of them.

use std::fmt;
use std::num::NonZeroU64;

use super::ids::Nonce;
use super::invalid::Invalid;

/// Largest number that JavaScript and JSON carry exactly; no token is larger.
pub const TOKEN_MAX: u64 = (1 << 53) - 1;

/// A revision of the etcd store. `None` where etcd says 0: the key is absent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(NonZeroU64);

impl Revision {
    /// From what etcd said; 0 and below mean "absent".
    pub fn from_etcd(revision: i64) -> Option<Self> {
        u64::try_from(revision)
            .ok()
            .and_then(NonZeroU64::new)
            .map(Self)
    }

    /// For a compare or an answer.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// The number that proves which grant of a resource is the later one. Successive grants have rising tokens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(NonZeroU64);

impl FencingToken {
    /// Reads a token that a caller shows. It proves nothing until it is compared.
    pub fn shown(token: i64) -> Result<Self, Invalid> {
        let token = u64::try_from(token).ok().and_then(NonZeroU64::new);
        match token {
            Some(token) if token.get() <= TOKEN_MAX => Ok(Self(token)),
            Some(_) | None => Err(Invalid::new("must be 1 to 9007199254740991 (2^53-1)")),
        }
    }

    /// The token of a grant: only a committed transaction has a revision, so holding one proves that the grant happened.
    ///
    /// `None` when the sum would leave the range of tokens, which etcd cannot reach within its lifetime.
    pub fn of_grant(base: u64, granted: Revision) -> Option<Self> {
        let sum = base.checked_add(granted.get())?;
        if sum > TOKEN_MAX {
            None
        } else {
            NonZeroU64::new(sum).map(Self)
        }
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

/// How many tokens each second since 1970 is worth when a timeline chooses its base. 2^21 keeps tokens below 2^53 until
/// the year 2106, and no etcd makes as many revisions in a second, so a later timeline always has larger tokens.
pub const TOKENS_PER_SECOND: u64 = 1 << 21;

/// The history since the store was last restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// Names it.
    pub id: Nonce,
    /// A token is this plus the revision of its grant.
    pub base: u64,
    /// Tokens below this were issued by an earlier timeline.
    pub min_token: u64,
}

impl Timeline {
    /// The first timeline of a store. Its base is taken from the wall clock, so that tokens rise even if the whole store is
    /// thrown away and begun anew beside databases that remember the old ones.
    pub fn first(id: Nonce, unix_seconds: u64) -> Self {
        Self {
            id,
            base: unix_seconds.saturating_mul(TOKENS_PER_SECOND),
            min_token: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_that_could_be_tokens_are_read_as_tokens() {
        for bad in [0, -1, i64::MIN, i64::MAX, 1 << 53] {
            assert!(FencingToken::shown(bad).is_err(), "{bad}");
        }
        assert_eq!(FencingToken::shown(1).unwrap().get(), 1);
        assert_eq!(FencingToken::shown((1 << 53) - 1).unwrap().get(), TOKEN_MAX);
    }

    #[test]
    fn a_store_begun_a_second_later_has_larger_tokens() {
        let busiest = Revision::from_etcd(1_000_000).unwrap();
        let first = Timeline::first(Nonce::from_bytes([0; 16]), 1_900_000_000);
        let second = Timeline::first(Nonce::from_bytes([1; 16]), 1_900_000_001);
        let last_of_first = FencingToken::of_grant(first.base, busiest).unwrap();
        let first_of_second =
            FencingToken::of_grant(second.base, Revision::from_etcd(2).unwrap()).unwrap();
        assert!(first_of_second > last_of_first);
    }
}
