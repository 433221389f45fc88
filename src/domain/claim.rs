//! Claims: operations whose effect may be under way.
//!
//! A claim is stored when the effect may begin, in the commit that grants the round it is held under. It is open until the
//! effect's result is stored, a person resolves it, or it is given back with nothing done. It lives as long as its round: an
//! open claim whose round is over has died, and whether its effect ran is not known.

use super::digest::FieldHashes;
use super::ids::{EventName, Holder, IdentityName, Mark, Nonce, OperationId, Reason, RequestId};
use super::machine::MachineVersion;
use super::record::{Raised, Record};
use super::request::{Identity, Intent};

/// Most attempts that begin without a person, if the operation may be run again after one has died.
pub const CLAIM_ATTEMPTS_MAX: u32 = 5;
/// Most operations of one resource that are open at once, those included that died or were given back.
pub const OPEN_OPERATIONS_MAX: usize = 16;
/// Most bytes that the open operations of one resource may take in its record, about.
pub const OPEN_BYTES_MAX: usize = 16 * 1024;
/// Most operations that are remembered after they were given back with nothing done; the oldest are forgotten first.
pub const RETURNED_OPERATIONS_MAX: usize = 8;
/// Most rounds of which it is remembered which operation they claimed, beside the last one and those whose claim is still
/// open.
pub const PAST_CLAIMS_MAX: usize = 8;
/// Most of them together with those whose claim is still open. Each open operation has one claim at most.
pub const PAST_CLAIMS_STORED_MAX: usize = PAST_CLAIMS_MAX + OPEN_OPERATIONS_MAX;

/// Whose round a claim is held under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// One that began with the claim, and ends with it unless told otherwise.
    Own,
    /// One that its holder had before, and keeps unless told otherwise.
    Ridden,
}

/// An operation that was claimed and is not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOperation {
    /// What was asked, as it was judged at the grant: the move that its completing makes.
    pub intent: Intent,
    /// What a machine judged it as; its intent then has the move that the event makes. `None`: no machine did.
    pub judged: Option<JudgedAs>,
    /// Who works on it, and what is known of the attempts.
    pub claim: Claim,
    /// By these another content under the same key is told which of its fields differ. The salt is the mark of the request
    /// that the claim was granted to.
    pub fields: FieldHashes,
}

/// What a machine made of an operation when its claim was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedAs {
    /// The event, as that version calls it.
    pub event: EventName,
    /// The version that was in force.
    pub version: MachineVersion,
    /// Identity values that end with the move.
    pub clears: Vec<IdentityName>,
    /// Whether its sender, refused, would send again for ever.
    pub keeps_retrying: bool,
}

/// The last claim of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The request that it was granted to, as drawn for it.
    pub nonce: Nonce,
    /// The attempt of the caller that it was granted to.
    pub request: RequestId,
    /// The round it is held under.
    pub round: Nonce,
    /// Whose round that is.
    pub seat: Seat,
    /// The base of the timeline that it was granted in.
    pub base: u64,
    /// How many attempts have begun, this one included.
    pub attempts: u32,
    /// When the operation was first claimed, in milliseconds since 1970.
    pub time_ms: u64,
    /// Whether it was given back with nothing done: it may start again.
    pub returned: bool,
    /// Incidents already raised about it.
    pub raised: Raised,
    /// What a person last said of it.
    pub resolved: Option<Box<Resolution>>,
}

/// What a person found out about an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The effect was done.
    Done,
    /// It was not done, and may start again.
    NotDone,
    /// It must never be run.
    Refused,
}

/// That a person resolved an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// What was found out.
    pub finding: Finding,
    /// Who said so.
    pub by: Holder,
    /// Why.
    pub reason: Reason,
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
    /// That of the request that wrote it.
    pub mark: Mark,
}

impl Resolution {
    /// In words, for the log.
    pub fn told(&self) -> String {
        let what = match self.finding {
            Finding::Done => "that it was done",
            Finding::NotDone => "that it was not done",
            Finding::Refused => "that it must not be run",
        };
        format!("{} said {what}: {}", self.by, self.reason)
    }

    /// How many bytes it takes, about.
    pub fn size(&self) -> usize {
        const FIXED: usize = 36;
        FIXED + self.by.as_str().len() + self.reason.as_str().len()
    }
}

/// A round that is over, and the one operation that it claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastClaim {
    /// Which round.
    pub round: Nonce,
    /// The operation.
    pub operation: OperationId,
}

/// What a round has claimed, as far as that is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    /// This one operation, and no other ever.
    One(OperationId),
    /// More than one, one after the other.
    Several,
    /// None, or it is forgotten.
    Nothing,
}

impl OpenOperation {
    /// The event and the version that it was judged by, if a machine did.
    pub fn judged_as(&self) -> Option<(&EventName, MachineVersion)> {
        self.judged
            .as_ref()
            .map(|judged| (&judged.event, judged.version))
    }

    /// How many bytes it takes in a record, about.
    pub fn size(&self) -> usize {
        const FIXED: usize = 96;
        let values = |identity: &Identity| {
            let each = identity.iter();
            each.map(|(name, value)| name.as_str().len() + value.as_str().len() + 6)
                .sum::<usize>()
        };
        let movement = self.intent.movement.as_ref();
        let ends = movement.map_or([None, None], |to| [to.to.as_ref(), to.initial.as_ref()]);
        let states = ends.into_iter().flatten().chain(&self.intent.from);
        FIXED
            + self.intent.operation.as_str().len()
            + self.intent.digest.bytes().len()
            + self.fields.as_bytes().len()
            + values(&self.intent.identity)
            + movement.map_or(0, |movement| values(&movement.sets))
            + states.map(|state| state.as_str().len() + 2).sum::<usize>()
            + self.claim.resolved.as_ref().map_or(0, |by| by.size())
            + self.judged.as_ref().map_or(0, JudgedAs::size)
    }
}

impl JudgedAs {
    fn size(&self) -> usize {
        const FIXED: usize = 12;
        let clears = self.clears.iter().map(|name| name.as_str().len() + 2);
        FIXED + self.event.as_str().len() + clears.sum::<usize>()
    }
}

impl Record {
    /// An operation that is open.
    pub fn open(&self, id: &OperationId) -> Option<&OpenOperation> {
        self.open.iter().find(|open| open.intent.operation == *id)
    }

    /// The operation that a round claimed.
    pub fn carried_by(&self, round: Nonce) -> Carried {
        match self.round.as_ref() {
            Some(last) if last.nonce == round => match (last.claims, &last.claimed) {
                (1, Some(id)) => Carried::One(id.clone()),
                (0, _) | (_, None) => Carried::Nothing,
                (_, Some(_)) => Carried::Several,
            },
            Some(_) | None => self
                .past_claims
                .iter()
                .find(|past| past.round == round)
                .map_or(Carried::Nothing, |past| {
                    Carried::One(past.operation.clone())
                }),
        }
    }

    /// Forgets what rounds claimed, the oldest first, until so many are left beside those whose claim is still open: as long
    /// as that waits for a person, a result that comes late must find its operation.
    pub fn forget_past_claims(&mut self, left: usize) {
        let open = &self.open;
        let waits = |past: &PastClaim| {
            let of_round = |open: &OpenOperation| {
                open.claim.round == past.round && open.intent.operation == past.operation
            };
            open.iter()
                .any(|open| of_round(open) && !open.claim.returned)
        };
        let settled = self.past_claims.iter().filter(|past| !waits(past)).count();
        let mut too_many = settled.saturating_sub(left);
        self.past_claims.retain(|past| {
            let goes = too_many > 0 && !waits(past);
            too_many -= usize::from(goes);
            !goes
        });
    }

    /// Forgets operations that were given back, the oldest first, until no more than so many are left.
    pub fn forget_returned(&mut self, left: usize) {
        let returned = self.open.iter().filter(|open| open.claim.returned);
        let mut too_many = returned.count().saturating_sub(left);
        self.open.retain(|open| {
            let goes = open.claim.returned && too_many > 0;
            too_many -= usize::from(goes);
            !goes
        });
    }
}
