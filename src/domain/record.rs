//! What is known of one resource: one record, committed as a whole.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use super::claim::{OpenOperation, PastClaim, Resolution};
use super::decision::{Rule, Verdict};
use super::digest::{ContentDigest, FieldHashes};
use super::ids::{
    EventName, Holder, IdentityName, IdentityValue, Mark, Nonce, OperationId, RequestId,
    ReservationId, ResourceId, StateName,
};
use super::machine::MachineVersion;
use super::outcome::StoredResult;
use super::request::Ttl;
use super::retention::StoreTime;
use super::together::Company;
use super::token::{FencingToken, Revision};

/// Most different states that one resource may have been in.
pub const STATES_REMEMBERED_MAX: usize = 64;
/// Most different identity names that one resource may have.
pub const IDENTITY_NAMES_REMEMBERED_MAX: usize = 16;
/// Most replaced values remembered for each identity name; the oldest are forgotten first.
pub const REPLACED_VALUES_MAX: usize = 64;
/// Most rounds remembered after the one that came last.
pub const PAST_ROUNDS_MAX: usize = 8;

/// Number of an etcd lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseId(pub i64);

/// The first eight bytes of a hash over an identity's name and value. A value that was replaced is kept only as this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueHash(pub u64);

impl ValueHash {
    /// Of a named value.
    pub fn of(name: &IdentityName, value: &IdentityValue) -> Self {
        let mut hash = Sha256::new();
        hash.update(name.as_str().as_bytes());
        hash.update([0]);
        hash.update(value.as_str().as_bytes());
        let digest = hash.finalize();
        let mut first = [0; 8];
        for (to, from) in first.iter_mut().zip(digest) {
            *to = from;
        }
        Self(u64::from_be_bytes(first))
    }
}

/// Everything that is known of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// How many moves were made; orders the visits.
    pub moves: u64,
    /// The state now. `None`: never created.
    pub state: Option<StateName>,
    /// When each state was last entered and left, also the one it is in.
    pub visits: BTreeMap<StateName, Visit>,
    /// Identity values, now and replaced.
    pub identity: BTreeMap<IdentityName, NamedValue>,
    /// The last round, live or over.
    pub round: Option<Round>,
    /// Rounds before it, oldest first.
    pub past_rounds: Vec<PastRound>,
    /// Finished operations kept inline, oldest first.
    pub operations: Vec<Operation>,
    /// Operations that were claimed and are not finished, oldest first. They never leave the record.
    pub open: Vec<OpenOperation>,
    /// Rounds before the last one that claimed an operation, oldest first.
    pub past_claims: Vec<PastClaim>,
    /// How many finished operations live in keys of their own. While it is above 0, an operation that is not inline may
    /// still have been done.
    pub spilled: u64,
    /// When it was last written for a caller's sake.
    pub touched: Option<StoreTime>,
    /// When its state and its history were forgotten. What is left keeps late messages from beginning it anew.
    pub forgotten: Option<StoreTime>,
    /// The version of the machine whose names it speaks in. `None`: no machine has judged it yet.
    pub machine: Option<MachineVersion>,
}

/// A stay in a state, the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visit {
    /// The number of the move that entered it.
    pub entered: u64,
    /// The number of the move that last left it. Smaller than `entered` while the resource is in it again.
    pub left: Option<u64>,
    /// The identity values in force when it was entered.
    pub values: BTreeSet<ValueHash>,
}

/// An identity value and those that it replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedValue {
    /// In force; `None`: it was cleared.
    pub current: Option<IdentityValue>,
    /// Known to be replaced or cleared, oldest first.
    pub replaced: Vec<ValueHash>,
}

/// One round of holding the resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Names it; drawn by the request that was granted.
    pub nonce: Nonce,
    /// The attempt it was granted to.
    pub request: RequestId,
    /// For people.
    pub holder: Option<Holder>,
    /// How long each renewal lasts.
    pub ttl: Ttl,
    /// The lease that the reservation key hangs on.
    pub lease: LeaseId,
    /// The base of the timeline it was granted in.
    pub base: u64,
    /// The revision of its grant. `None`: that of the record itself, which cannot name the revision that writes it.
    pub granted: Option<Revision>,
    /// How it ended. `None`: its reservation key decides.
    pub over: Option<RoundEnd>,
    /// The operation that it claimed last.
    pub claimed: Option<OperationId>,
    /// How many operations it has claimed. With more than one, only the operation's name tells which is meant.
    pub claims: u32,
    /// Which other resources it holds. It cannot change while the round lasts.
    pub company: Company,
}

impl Round {
    /// Whether this is its name, as the record of this resource says it.
    pub fn is_called(&self, resource: &ResourceId, id: &ReservationId) -> bool {
        let lead = match &self.company {
            Company::Alone | Company::Leads(_) => resource,
            Company::Follows(lead) => lead,
        };
        let several = self.company != Company::Alone;
        self.nonce == id.round() && several == id.is_of_several() && lead == id.resource()
    }

    /// The revision of its grant, given the record's own.
    pub fn granted_at(&self, record_revision: Option<Revision>) -> Option<Revision> {
        self.granted.or(record_revision)
    }

    /// Its token, given the record's own revision.
    pub fn token(&self, record_revision: Option<Revision>) -> Option<FencingToken> {
        FencingToken::of_grant(self.base, self.granted_at(record_revision)?)
    }
}

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundEnd {
    /// By its holder; the mark is that of the request that did it.
    Released(Mark),
    /// Its time ran out.
    Lost,
}

/// A round before the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastRound {
    /// Which.
    pub nonce: Nonce,
    /// How it ended.
    pub end: RoundEnd,
}

/// A finished operation. It never changes, but for the incidents that later requests raise about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The sender's key.
    pub id: OperationId,
    /// What it said.
    pub digest: ContentDigest,
    /// What it led to: APPLIED, SUPERSEDED, OTHER_ROUND or REJECTED.
    pub verdict: Verdict,
    /// Why, exactly.
    pub rule: Rule,
    /// The first result; empty unless APPLIED.
    pub result: StoredResult,
    /// When it was decided, in milliseconds since 1970.
    pub time_ms: u64,
    /// That of the request that wrote it.
    pub mark: Mark,
    /// The round that finished it, if any.
    pub round: Option<Nonce>,
    /// The state in which it was judged.
    pub state: Option<StateName>,
    /// The states it could have started from, where the state decided.
    pub expected: Vec<StateName>,
    /// Incidents already raised about it.
    pub raised: Raised,
    /// What a person last said of it.
    pub resolved: Option<Box<Resolution>>,
    /// By these a later content under the same key is told which of its fields differ. The salt is `mark`.
    pub fields: FieldHashes,
    /// Until when it is replayable. `None`: for good.
    pub expiry: Option<StoreTime>,
    /// How often it was delivered.
    pub deliveries: Deliveries,
    /// The event that it was, if a machine judged it,
    pub event: Option<EventName>,
    /// and the version of that machine.
    pub machine: Option<MachineVersion>,
    /// Whether its sender, refused, would send again for ever: then it is told that the matter is settled.
    pub keeps_retrying: bool,
    /// What its effect turned out to be, if not what was claimed.
    pub outcome: Option<Box<Outcome>>,
}

/// The event whose move was made when a claim of another event was completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The event, as that version calls it.
    pub event: EventName,
    /// The version that was in force.
    pub version: MachineVersion,
}

impl Operation {
    /// The event and the version that it was judged by, if a machine did.
    pub fn judged_as(&self) -> Option<(&EventName, MachineVersion)> {
        self.event.as_ref().zip(self.machine)
    }

    /// Whether its time has come: what is remembered of it no longer counts, only what is still stored.
    pub fn expired(&self, now: StoreTime) -> bool {
        self.expiry.is_some_and(|end| end.has_come(now))
    }

    /// Whether it may be removed.
    pub fn over(&self, now: StoreTime) -> bool {
        self.expiry.is_some_and(|end| end.is_over(now))
    }
}

/// How often an operation was delivered, the first time included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deliveries(u32);

impl Default for Deliveries {
    fn default() -> Self {
        Self(1)
    }
}

impl Deliveries {
    /// As stored, where once is not said.
    pub fn said(stored: u32) -> Self {
        Self(stored.max(1))
    }

    /// For a stored record.
    pub fn unsaid(self) -> u32 {
        if self.0 == 1 { 0 } else { self.0 }
    }

    /// So many more.
    #[must_use]
    pub fn and(self, more: u32) -> Self {
        Self(self.0.saturating_add(more))
    }

    /// How many.
    pub fn get(self) -> u32 {
        self.0
    }
}

/// Which incidents an operation has raised, so that a repeated finding writes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Raised(u32);

impl Raised {
    /// Another content came under the same key.
    pub const CONFLICT: Self = Self(1);
    /// Another event came under the same key. Beside a content that differs it is a finding of its own.
    pub const OTHER_EVENT: Self = Self(1 << 2);
    /// Its own refusal was reported.
    pub const REFUSAL: Self = Self(2);
    /// Its last attempt died, and a person decides.
    pub const INTERRUPTED: Self = Self(1 << 8);

    /// The conflict that this rule finds.
    pub fn conflict(rule: Rule) -> Self {
        if rule == Rule::OtherEvent {
            Self::OTHER_EVENT
        } else {
            Self::CONFLICT
        }
    }

    /// From a stored record.
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// For a stored record.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Whether all of `other` were raised.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Without any of `other`.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Both together.
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
