//! Durable records of what a person must judge.

use sha2::{Digest as _, Sha256};

use super::decision::{IncidentId, Rule, Verdict};
use super::digest::ContentDigest;
use super::ids::{OperationId, ResourceId, StateName};
use super::outcome::StoredResult;

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
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
    /// What was stored first.
    pub first_digest: Option<ContentDigest>,
    /// What came now. `None`: the request named only its round, and what that claimed is forgotten.
    pub digest: Option<ContentDigest>,
    /// The result that the refused request carried.
    pub evidence: Option<StoredResult>,
    /// The state at that time.
    pub state: Option<StateName>,
}

impl Incident {
    /// The id of a finding. `distinct` tells findings apart that share everything else, such as the round that was fenced.
    pub fn id_of(
        resource: &ResourceId,
        operation: Option<&OperationId>,
        verdict: Verdict,
        rule: Rule,
        distinct: &[u8],
    ) -> IncidentId {
        let mut hash = Sha256::new();
        let parts: [&[u8]; 6] = [
            resource.kind().as_str().as_bytes(),
            resource.id().as_bytes(),
            operation.map_or(&[], |operation| operation.as_str().as_bytes()),
            &[verdict_code(verdict)],
            rule.as_str().as_bytes(),
            distinct,
        ];
        for part in parts {
            // Lengths keep ("ab", "c") and ("a", "bc") apart.
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part);
        }
        let digest = hash.finalize();
        let short = digest
            .iter()
            .take(12)
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>();
        IncidentId(format!("inc-{short}"))
    }
}

/// A stable number for each verdict, as stored.
pub fn verdict_code(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Granted => 1,
        Verdict::Applied => 2,
        Verdict::Replayed => 3,
        Verdict::InProgress => 4,
        Verdict::Busy => 5,
        Verdict::Interrupted => 6,
        Verdict::Conflict => 7,
        Verdict::Superseded => 8,
        Verdict::OtherRound => 9,
        Verdict::TooEarly => 10,
        Verdict::Rejected => 12,
        Verdict::Fenced => 13,
    }
}

/// The verdict stored as this number.
pub fn verdict_from_code(code: u8) -> Option<Verdict> {
    match code {
        1 => Some(Verdict::Granted),
        2 => Some(Verdict::Applied),
        3 => Some(Verdict::Replayed),
        4 => Some(Verdict::InProgress),
        5 => Some(Verdict::Busy),
        6 => Some(Verdict::Interrupted),
        7 => Some(Verdict::Conflict),
        8 => Some(Verdict::Superseded),
        9 => Some(Verdict::OtherRound),
        10 => Some(Verdict::TooEarly),
        12 => Some(Verdict::Rejected),
        13 => Some(Verdict::Fenced),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_number_is_read_as_the_verdict_that_wrote_it() {
        let known: Vec<u8> = (0..=u8::MAX)
            .filter(|code| verdict_from_code(*code).is_some())
            .collect();
        assert_eq!(known, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13]);
        for code in known {
            assert_eq!(verdict_from_code(code).map(verdict_code), Some(code));
        }
    }
}
