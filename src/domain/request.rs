//! What callers ask, once it has been parsed.

use std::collections::BTreeMap;
use std::time::Duration;

use super::claim::Finding;
use super::digest::{Beside, ContentDigest, FieldHashes};
use super::ids::{
    EventName, Holder, IdentityName, IdentityValue, Mark, OperationId, Reason, RequestId,
    ReservationId, ResourceId, StateName,
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
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// What becomes of it if a claim of it dies.
    pub interrupted: Interrupted,
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

/// What becomes of an operation whose claim died without a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interrupted {
    /// A person decides.
    #[default]
    Ask,
    /// It may run again, a few times.
    Rerun,
}

/// Where an intent leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// What becomes of the round if the move is applied. `None`: one that began with the claim ends, any other stays.
    pub afterwards: Option<Afterwards>,
    /// Completing the claim of an event: what its effect turned out to be, if not what was intended.
    pub outcome: Option<EventName>,
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

/// Completes the operation that a round has claimed.
#[derive(Clone, Debug)]
pub struct Complete {
    /// The round.
    pub reservation: ReservationId,
    /// What to store. `None`: done and empty.
    pub result: Option<StoredResult>,
    /// As in [`Transition`].
    pub afterwards: Option<Afterwards>,
    /// As in [`Transition`].
    pub outcome: Option<EventName>,
    /// Who sends it, for people.
    pub sender: Option<Holder>,
    /// Whether it is only asked what would become of it.
    pub purpose: Purpose,
}

/// What becomes of a round when a move was made under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// It ends with the move.
    Ends,
    /// It stays.
    Stays,
}

/// Asks for a reservation; with an intent, for a claim.
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
    /// The operation whose effect is to be run under it. `None`: a plain reservation.
    pub intent: Option<Box<Intent>>,
}

/// Asks for a claim on a reservation that the caller has.
#[derive(Clone, Debug)]
pub struct Ride {
    /// The caller's live round.
    pub reservation: ReservationId,
    /// Which attempt of the caller this is.
    pub request: RequestId,
    /// The operation whose effect is to be run.
    pub intent: Intent,
}

/// What a released round leaves behind, if it had an open claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nobody knows what was done.
    Unsaid,
    /// Nobody knows what was done, but this is how it ended, for whoever decides.
    Ended(Box<StoredResult>),
    /// Nothing was done: the operation may start again.
    NothingDone,
}

/// What a person says of an operation that was interrupted.
#[derive(Clone, Debug)]
pub struct Resolve {
    /// Of which resource.
    pub resource: ResourceId,
    /// Which operation.
    pub operation: OperationId,
    /// What was found out.
    pub finding: Finding,
    /// What to store, with [`Finding::Done`].
    pub result: StoredResult,
    /// Who says so.
    pub by: Holder,
    /// Why.
    pub reason: Reason,
    /// The attempt that the person looked into. `None`: whichever is the last.
    pub attempt: Option<u32>,
    /// Whether a claim that is still live is ended for it.
    pub running: Running,
}

/// What becomes of a claim that is live when a person resolves its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Running {
    /// It stays, and nothing is resolved.
    Spared,
    /// It is ended.
    Ended,
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
