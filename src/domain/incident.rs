//! Durable records of what a person must judge.
//!
//! There is one for each operation and kind of finding, that is verdict and rule. What is found again is counted. A result
//! that was not taken is evidence that an effect ran: each is kept, the first in the incident itself, every other one as a
//! part of its own beside it, until the incident is full. Beyond that they are counted, and whoever sent them is told.

mod closing;
mod codes;
mod kept;

use sha2::{Digest as _, Sha256};

use super::decision::{IncidentId, Rule, Verdict};
use super::digest::ContentDigest;
use super::ids::{Holder, Kind, Nonce, OperationId, Reason, ResourceId, StateName};
use super::outcome::StoredResult;
use super::retention::StoreTime;

pub use closing::Closing;
pub use codes::{verdict_code, verdict_from_code};
pub use kept::{EVIDENCE_BYTES_MAX, EVIDENCE_PIECES_MAX, KeptEvidence};

/// How many bytes of a hash name an incident.
const ID_BYTES: usize = 12;
/// How many bytes of a hash name a piece of evidence within its incident.
const PART_BYTES: usize = 12;
/// Most pieces of evidence that are shown at once.
pub const EVIDENCE_SHOWN_MAX: usize = 16;
/// Stands between the id of an incident and the name of a part of it.
const PART_MARK: char = '.';
/// Stands in the name of a part before the number of bytes of its result.
const BYTES_MARK: char = '-';

/// What a person must judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Names it.
    pub id: IncidentId,
    /// Of which resource.
    pub resource: ResourceId,
    /// Which operation. `None`: a result came without naming one, of a round too old to tell.
    pub operation: Option<OperationId>,
    /// What was found.
    pub verdict: Verdict,
    /// Why, exactly.
    pub rule: Rule,
    /// One sentence.
    pub explanation: String,
    /// When it was found first, in milliseconds since 1970.
    pub time_ms: u64,
    /// What was stored first.
    pub first_digest: Option<ContentDigest>,
    /// What came when it was found first. `None`: the request named only its round, and what that claimed is forgotten.
    pub digest: Option<ContentDigest>,
    /// The results that refused requests carried. As it is raised, that of the one request at most.
    pub evidence: Vec<Evidence>,
    /// How many further results there are that are not shown here.
    pub more_evidence: usize,
    /// How many deliveries brought a result that was not kept, since the incident was full.
    pub unkept: u32,
    /// The state at that time.
    pub state: Option<StateName>,
    /// Who sent the request that it was found in.
    pub sender: Option<Holder>,
    /// JSON Pointers to the fields in which the contents differ.
    pub fields: Vec<String>,
    /// How often it was found after the first time.
    pub again: u32,
    /// When it was found last, in milliseconds since 1970.
    pub last_ms: u64,
    /// What came when it was found last, if that is something else than `digest`.
    pub last_digest: Option<ContentDigest>,
    /// How a person closed it.
    pub closing: Option<Closing>,
    /// Until when it is kept. `None`: for good.
    pub expiry: Option<StoreTime>,
}

/// A result that was not taken, or an empty one for a claim that died without any: the effect may have run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// What the effect said.
    pub result: StoredResult,
    /// The round that brought it.
    pub round: Option<Nonce>,
    /// The content of the request that brought it. `None`: that named only its round.
    pub digest: Option<ContentDigest>,
    /// Who sent it.
    pub sender: Option<Holder>,
    /// When it came, in milliseconds since 1970.
    pub time_ms: u64,
}

/// Which incidents are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IncidentFilter {
    /// Only those of resources of this kind.
    pub kind: Option<Kind>,
    /// Only those that wait for a person.
    pub open: bool,
}

impl IncidentFilter {
    /// Whether an incident is among them.
    pub fn admits(&self, incident: &Incident) -> bool {
        let kind = self.kind.as_ref();
        kind.is_none_or(|kind| incident.resource.kind() == kind)
            && (!self.open || incident.is_open())
    }
}

/// Another delivery of what an incident tells of already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// How many deliveries there were.
    pub times: u32,
    /// When the last of them came, in milliseconds since 1970.
    pub last_ms: u64,
    /// What it said, if it said anything.
    pub digest: Option<ContentDigest>,
    /// How many of them brought a result that was not kept.
    pub unkept: u32,
}

impl Incident {
    /// The id of a finding.
    pub fn id_of(
        resource: &ResourceId,
        operation: Option<&OperationId>,
        verdict: Verdict,
        rule: Rule,
    ) -> IncidentId {
        let digest = hash_of(&[
            resource.kind().as_str().as_bytes(),
            resource.id().as_bytes(),
            operation.map_or(&[], |operation| operation.as_str().as_bytes()),
            &[verdict_code(verdict)],
            rule.as_str().as_bytes(),
        ]);
        IncidentId(format!("inc-{}", hex(&digest[..ID_BYTES])))
    }

    /// How many bytes its evidence and its texts take, about.
    pub fn size(&self) -> usize {
        let results = self.evidence.iter().map(|evidence| evidence.result.size());
        let fields = self.fields.iter().map(String::len);
        results.chain(fields).sum()
    }

    /// Where the evidence is kept if the incident is there already; `None`: it brings none, or is a part itself. The name says
    /// how many bytes it has, so that nobody needs to read it for that.
    pub fn part(&self) -> Option<IncidentId> {
        let evidence = self.evidence.first().filter(|_| !self.id.is_a_part())?;
        let round = evidence.round.map(|round| *round.as_bytes());
        let digest = hash_of(&[
            round.as_ref().map_or(&[][..], |round| &round[..]),
            &evidence.result.fingerprint(),
        ]);
        let IncidentId(id) = &self.id;
        Some(IncidentId(format!(
            "{id}{PART_MARK}{}{BYTES_MARK}{}",
            hex(&digest[..PART_BYTES]),
            evidence.result.size()
        )))
    }

    /// How many results were kept as evidence.
    pub fn evidence_count(&self) -> usize {
        self.evidence.len() + self.more_evidence
    }

    /// Whether it waits for a person: it was never closed, or there is evidence that nobody had seen by then.
    pub fn is_open(&self) -> bool {
        let closing = self.closing.as_ref();
        closing.is_none_or(|closing| closing.evidence < self.evidence_count())
    }

    /// Closes it. One that is closed stays as it was closed first.
    pub fn close(&mut self, by: Holder, reason: Reason, time_ms: u64) {
        if self.is_open() {
            self.closing = Some(Closing {
                time_ms,
                by,
                reason,
                evidence: self.evidence_count(),
            });
        }
    }

    /// Counts further deliveries. The same finding again leaves a closed incident closed, for it was judged; one with a
    /// content that was not seen before opens it.
    pub fn count(&mut self, sighting: &Sighting) {
        self.again = self.again.saturating_add(sighting.times);
        self.unkept = self.unkept.saturating_add(sighting.unkept);
        self.last_ms = self.last_ms.max(sighting.last_ms);
        let Some(digest) = &sighting.digest else {
            return;
        };
        let another = self.digest.as_ref() != Some(digest);
        if another && self.last_digest.as_ref() != Some(digest) {
            self.closing = None;
        }
        self.last_digest = another.then(|| digest.clone());
    }
}

impl IncidentId {
    /// Whether it names a part of that incident.
    pub fn is_part_of(&self, whole: &Self) -> bool {
        let rest = self.0.strip_prefix(&whole.0);
        rest.is_some_and(|rest| rest.starts_with(PART_MARK))
    }

    /// Whether it names a part of some incident.
    pub fn is_a_part(&self) -> bool {
        self.0.contains(PART_MARK)
    }
}

fn hash_of(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        // Lengths keep ("ab", "c") and ("a", "bc") apart.
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
