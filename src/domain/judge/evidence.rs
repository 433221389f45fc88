//! What a fold has to know of the evidence that incidents keep already.

use std::collections::{BTreeMap, BTreeSet};

use super::Fold;
use crate::domain::decision::IncidentId;
use crate::domain::incident::KeptEvidence;

impl Fold<'_> {
    /// Judges with what these incidents keep; of one that is not there, nothing.
    #[must_use]
    pub fn knowing(mut self, evidence: &BTreeMap<IncidentId, KeptEvidence>) -> Self {
        self.kept_evidence.clone_from(evidence);
        self
    }

    /// Incidents of which it has to be known what they keep. Until it is, nothing may be written: the same requests are to be
    /// folded again with it.
    pub fn unread_evidence(&self) -> &BTreeSet<IncidentId> {
        &self.unread_evidence
    }
}
