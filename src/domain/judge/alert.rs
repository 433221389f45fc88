//! What a person is alerted to, and the results that are kept as evidence.

use super::{AddedNothing, Fold};
use crate::domain::claim::OpenOperation;
use crate::domain::decision::{IncidentId, Rule, Verdict};
use crate::domain::digest::ContentDigest;
use crate::domain::ids::{Holder, Nonce, OperationId};
use crate::domain::incident::{Evidence, Incident};
use crate::domain::outcome::StoredResult;
use crate::domain::request::Transition;

/// What an incident is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a> {
    pub(super) verdict: Verdict,
    pub(super) rule: Rule,
    pub(super) text: &'a str,
    pub(super) fields: &'a [String],
}

impl<'a> Found<'a> {
    pub(super) fn new(verdict: Verdict, rule: Rule, text: &'a str) -> Self {
        Self {
            verdict,
            rule,
            text,
            fields: &[],
        }
    }
}

/// What a request says of itself, as far as it does, and what is known of its operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct About<'a> {
    /// The operation.
    pub(super) operation: Option<&'a OperationId>,
    /// The content that was stored first.
    pub(super) first: Option<&'a ContentDigest>,
    /// The content that the request brought.
    pub(super) digest: Option<&'a ContentDigest>,
    /// The round that it names.
    pub(super) round: Option<Nonce>,
    /// Where it came from.
    pub(super) sender: Option<&'a Holder>,
}

impl<'a> About<'a> {
    /// A message, with the content that was stored first under its key.
    pub(super) fn message(ask: &'a Transition, first: Option<&'a ContentDigest>) -> Self {
        Self {
            operation: Some(&ask.intent.operation),
            first,
            digest: Some(&ask.intent.digest),
            round: ask.reservation.as_ref().map(|named| named.round()),
            sender: ask.sender.as_ref(),
        }
    }

    /// An open operation as such, whoever came upon it: it is about the claim, so its round is the one that is meant.
    pub(super) fn claim(open: &'a OpenOperation) -> Self {
        Self {
            operation: Some(&open.intent.operation),
            first: Some(&open.intent.digest),
            digest: Some(&open.intent.digest),
            round: Some(open.claim.round),
            sender: None,
        }
    }
}

impl Fold<'_> {
    /// Keeps the result of a request that is refused, whether it names a round or not: its effect may have run.
    pub(super) fn evidence(
        &mut self,
        about: &About<'_>,
        result: Option<&StoredResult>,
        found: Found<'_>,
    ) -> Option<IncidentId> {
        let result = result.filter(|result| !result.is_empty())?.clone();
        Some(self.keep_evidence(about, result, found))
    }

    pub(super) fn keep_evidence(
        &mut self,
        about: &About<'_>,
        result: StoredResult,
        found: Found<'_>,
    ) -> IncidentId {
        let mut incident = self.found(about, found);
        incident.evidence.push(self.evidence_of(about, result));
        let id = incident.id.clone();
        self.incident(incident);
        id
    }

    /// An incident about a request or a claim, without evidence.
    pub(super) fn found(&self, about: &About<'_>, found: Found<'_>) -> Incident {
        let Found {
            verdict,
            rule,
            text,
            fields,
        } = found;
        Incident {
            id: Incident::id_of(self.resource, about.operation, verdict, rule),
            resource: self.resource.clone(),
            operation: about.operation.cloned(),
            verdict,
            rule,
            explanation: text.to_owned(),
            time_ms: self.when.wall_ms,
            first_digest: about.first.cloned(),
            digest: about.digest.cloned(),
            evidence: Vec::new(),
            more_evidence: 0,
            unkept: 0,
            state: self.record.state.clone(),
            sender: self.sender_of(about),
            fields: fields.to_vec(),
            again: 0,
            last_ms: self.when.wall_ms,
            last_digest: None,
            closing: None,
            // A claim that died holds up its resource until it is settled, however long that takes. The sweep then gives
            // the incident its end.
            expiry: (rule != Rule::ClaimDied).then(|| self.when.incident_expiry()),
        }
    }

    pub(super) fn evidence_of(&self, about: &About<'_>, result: StoredResult) -> Evidence {
        Evidence {
            result,
            round: about.round,
            digest: about.digest.cloned(),
            sender: self.sender_of(about),
            time_ms: self.when.wall_ms,
        }
    }

    /// Who sent it: the holder of the round that it names, if that is still known, else where it came from.
    fn sender_of(&self, about: &About<'_>) -> Option<Holder> {
        let round = self.record.round.as_ref();
        let round = round.filter(|round| Some(round.nonce) == about.round);
        let holder = round.and_then(|round| round.holder.clone());
        holder.or_else(|| about.sender.cloned())
    }

    /// Adds an incident to the commit, with its evidence if there is room for it. What is kept already is known, or has to be
    /// looked up before anything is written.
    pub(super) fn incident(&mut self, incident: Incident) {
        let evidence = incident.evidence.first();
        let limited = evidence.filter(|evidence| !evidence.result.is_empty());
        if let (Some(evidence), Some(piece)) = (limited, incident.part()) {
            match self.kept_evidence.get_mut(&incident.id) {
                None => {
                    self.unread_evidence.insert(incident.id.clone());
                }
                // The incident is there, with all that this would add.
                Some(kept) if kept.has(&piece) => {
                    self.added_nothing = Some(AddedNothing::Kept);
                    return;
                }
                Some(kept) if kept.has_room_for(evidence) => kept.add(piece),
                // So the incident is there, too.
                Some(_) => {
                    self.added_nothing = Some(AddedNothing::Full);
                    return;
                }
            }
        }
        self.add_incident(incident);
    }

    /// Adds an incident to the commit, once. What a second one of the same name brings becomes a part of it.
    pub(super) fn add_incident(&mut self, incident: Incident) {
        // How long it is kept is for the law to say.
        self.lawful |= incident.expiry.is_some();
        let twin = self
            .incidents
            .iter()
            .find(|raised| raised.id == incident.id);
        let Some(twin) = twin else {
            self.bytes += incident.size();
            self.incidents.push(incident);
            return;
        };
        let Some(part) = incident
            .part()
            .filter(|part| twin.part().as_ref() != Some(part))
        else {
            return;
        };
        if self.incidents.iter().all(|raised| raised.id != part) {
            self.bytes += incident.size();
            self.incidents.push(Incident {
                id: part,
                ..incident
            });
        }
    }
}
