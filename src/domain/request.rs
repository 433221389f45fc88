//! What callers ask, once it has been parsed.

use std::collections::BTreeMap;
use std::time::Duration;

use super::digest::{Beside, ContentDigest, FieldHashes};
use super::ids::{
    EventName, Holder, IdentityName, IdentityValue, Mark, OperationId, RequestId, ReservationId,
    ResourceId, StateName,
};
use super::invalid::Invalid;
use super::outcome::StoredResult;
use super::token::FencingToken;

/// Most names in one identity or one `sets`.
pub const IDENTITY_NAMES_MAX: usize = 8;
/// Most states in one `from_states`.
pub const FROM_STATES_MAX: usize = 16;
/// Shortest reservation, in seconds. Two missed keepalives must fit.
pub const TTL_SECONDS_MIN: u32 = 3;
/// Longest reservation, in seconds: a day.
pub const TTL_SECONDS_MAX: u32 = 24 * 60 * 60;
/// How long a reservation lasts if the caller does not say, in seconds.
pub const TTL_SECONDS_DEFAULT: u32 = 30;

/// A lease outlasts what is promised by this part of it,
const LEASE_SLACK_PART: u32 = 4;
/// but by no less than this, in seconds,
const LEASE_SLACK_SECONDS_MIN: u32 = 2;
/// and by no more than this, in seconds.
const LEASE_SLACK_SECONDS_MAX: u32 = 30;

/// How long each renewal makes a reservation last, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u32);

impl Ttl {
    /// Rounds up to whole seconds, so that a hold never lives shorter than asked. `None`: the default.
    pub fn parse(ttl: Option<Duration>) -> Result<Self, Invalid> {
        let Some(ttl) = ttl else {
            return Ok(Self(TTL_SECONDS_DEFAULT));
        };
        if ttl < Duration::from_secs(TTL_SECONDS_MIN.into()) {
            return Err(Invalid::new(format!(
                "is {}; the least is {TTL_SECONDS_MIN}s",
                humantime::format_duration(ttl)
            )));
        }
        if ttl > Duration::from_secs(TTL_SECONDS_MAX.into()) {
            return Err(Invalid::new(format!(
                "is {}; the most is {TTL_SECONDS_MAX}s (24h)",
                humantime::format_duration(ttl)
            )));
        }
        let up = u64::from(ttl.subsec_nanos() > 0);
        let seconds = u32::try_from(ttl.as_secs() + up).unwrap_or(TTL_SECONDS_MAX);
        Ok(Self(seconds))
    }

    /// From a stored record.
    pub fn from_seconds(seconds: u32) -> Option<Self> {
        (TTL_SECONDS_MIN..=TTL_SECONDS_MAX)
            .contains(&seconds)
            .then_some(Self(seconds))
    }

    /// In seconds.
    pub fn seconds(self) -> u32 {
        self.0
    }

    /// How long the lease under it is asked to last, in seconds: longer than what is promised, so that a lease granted
    /// ahead of its use can still keep the promise a while later.
    pub fn lease_seconds(self) -> u32 {
        let slack =
            (self.0 / LEASE_SLACK_PART).clamp(LEASE_SLACK_SECONDS_MIN, LEASE_SLACK_SECONDS_MAX);
        self.0 + slack
    }

    /// As a span.
    pub fn as_duration(self) -> Duration {
        Duration::from_secs(self.0.into())
    }
}

/// The smallest named values that prove which round a message belongs to.
pub type Identity = BTreeMap<IdentityName, IdentityValue>;

/// What a message asks for.
#[derive(Clone, Debug)]
pub struct Intent {
    /// The sender's stable key.
    pub operation: OperationId,
    /// What has happened, in the words of the kind's machine; excludes `movement`.
    pub event: Option<EventName>,
    /// Must match what the resource has, but for what the event sets.
    pub identity: Identity,
    /// Tells the same content from another.
    pub digest: ContentDigest,
    /// What else is known of the content.
    pub beside: Beside,
    /// Where the move may start; empty: anywhere, or wherever the event may.
    pub from: Vec<StateName>,
    /// Where it leads; `None` without an event: run once, no state judged.
    pub movement: Option<Move>,
    /// When the sender made it, in milliseconds since 1970, if it says so.
    pub made_ms: Option<u64>,
}

impl Intent {
    /// Whether it has the content that was stored with this digest, by whatever scheme that was made.
    pub fn says_the_same(&self, stored: &ContentDigest) -> bool {
        self.beside.is_same(&self.digest, stored)
    }

    /// What is kept of the content's fields with the operation that the request with this mark writes.
    pub fn field_hashes(&self, mark: Mark) -> FieldHashes {
        self.beside.hashes(mark, self.movement.as_ref())
    }
}

/// Where an intent leads.
#[derive(Clone, Debug, Default)]
pub struct Move {
    /// `None`: the state stays.
    pub to: Option<StateName>,
    /// The state that a resource without one is taken to be in.
    pub initial: Option<StateName>,
    /// Identity values that begin with the move.
    pub sets: Identity,
}

/// Asks for a move.
#[derive(Clone, Debug)]
pub struct Transition {
    /// What moves.
    pub resource: ResourceId,
    /// What is asked.
    pub intent: Intent,
    /// The round under which the caller works.
    pub reservation: Option<ReservationId>,
    /// What to store if the move is applied.
    pub result: Option<StoredResult>,
    /// Who sends it, for people.
    pub sender: Option<Holder>,
    /// Whether it is only asked what would become of it.
    pub purpose: Purpose,
}

/// Whether a judgement is carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// It is.
    #[default]
    Commit,
    /// It is only told; nothing is written.
    Validate,
}

/// Asks what has become of an operation.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// Which.
    pub operation: OperationId,
    /// When the sender made it, in milliseconds since 1970, if the caller says so.
    pub made_ms: Option<u64>,
}

impl From<OperationId> for Lookup {
    fn from(operation: OperationId) -> Self {
        Self {
            operation,
            made_ms: None,
        }
    }
}

/// Asks for a reservation.
#[derive(Clone, Debug)]
pub struct Reserve {
    /// What to hold.
    pub resource: ResourceId,
    /// Which attempt of the caller this is.
    pub request: RequestId,
    /// For how long.
    pub ttl: Ttl,
    /// For people.
    pub holder: Option<Holder>,
}

/// Asks whether a token is good.
#[derive(Clone, Debug)]
pub struct Fence {
    /// Of what.
    pub resource: ResourceId,
    /// The token shown.
    pub token: FencingToken,
    /// Whether the last round may be over.
    pub ended: EndedRounds,
}

/// Whether a token of a round that is over still passes while nothing was granted after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedRounds {
    /// Only the live grant passes.
    Refused,
    /// The last grant passes, live or over.
    Accepted,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_rounded_up_never_down() {
        assert_eq!(
            Ttl::parse(Some(Duration::from_millis(3_001)))
                .unwrap()
                .seconds(),
            4
        );
        assert_eq!(
            Ttl::parse(Some(Duration::from_secs(3))).unwrap().seconds(),
            3
        );
        assert_eq!(Ttl::parse(None).unwrap().seconds(), 30);
    }

    #[test]
    fn a_ttl_outside_its_limits_is_refused_with_the_limit() {
        for short in [
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::from_millis(500),
            Duration::from_millis(1_500),
        ] {
            assert!(
                Ttl::parse(Some(short))
                    .unwrap_err()
                    .to_string()
                    .contains("the least is 3s")
            );
        }
        for long in [86_401, 9_000_000_001, 86_400_000_000_000, u64::MAX] {
            let error = Ttl::parse(Some(Duration::from_secs(long)))
                .unwrap_err()
                .to_string();
            assert!(error.contains("the most is 86400"), "{error}");
        }
    }
}
