//! What a person is alerted to, and the results that are kept as evidence.

use super::Fold;
use crate::domain::decision::{IncidentId, Rule, Verdict};
use crate::domain::ids::Holder;
use crate::domain::incident::{Evidence, Incident};
use crate::domain::outcome::StoredResult;
use crate::domain::record::Operation;
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

impl Fold<'_> {
    /// Keeps the result that a round brings and that is not taken: its effect may have run.
    pub(super) fn evidence(
        &mut self,
        ask: &Transition,
        found: Found<'_>,
        done: Option<&Operation>,
    ) -> Option<IncidentId> {
        let result = ask.result.clone().filter(|result| !result.is_empty())?;
        ask.reservation.as_ref()?;
        Some(self.keep_evidence(ask, result, found, done))
    }

    pub(super) fn keep_evidence(
        &mut self,
        ask: &Transition,
        result: StoredResult,
        found: Found<'_>,
        done: Option<&Operation>,
    ) -> IncidentId {
        let mut incident = self.found(ask, found, done);
        incident.evidence.push(self.evidence_of(ask, result));
        let id = incident.id.clone();
        self.incident(incident);
        id
    }

    /// An incident about a request, without evidence.
    pub(super) fn found(
        &self,
        ask: &Transition,
        found: Found<'_>,
        done: Option<&Operation>,
    ) -> Incident {
        let Found {
            verdict,
            rule,
            text,
            fields,
        } = found;
        let operation = &ask.intent.operation;
        Incident {
            id: Incident::id_of(self.resource, operation, verdict, rule),
            resource: self.resource.clone(),
            operation: operation.clone(),
            verdict,
            rule,
            explanation: text.to_owned(),
            time_ms: self.when.wall_ms,
            first_digest: done.map(|done| done.digest.clone()),
            digest: ask.intent.digest.clone(),
            evidence: Vec::new(),
            more_evidence: 0,
            state: self.record.state.clone(),
            sender: self.sender_of(ask),
            fields: fields.to_vec(),
            again: 0,
            last_ms: self.when.wall_ms,
            last_digest: None,
            closing: None,
            expiry: Some(self.when.incident_expiry()),
        }
    }

    pub(super) fn evidence_of(&self, ask: &Transition, result: StoredResult) -> Evidence {
        Evidence {
            result,
            round: ask.reservation.as_ref().map(|named| named.round()),
            digest: ask.intent.digest.clone(),
            sender: self.sender_of(ask),
            time_ms: self.when.wall_ms,
        }
    }

    /// Who sent it: the holder of the round that it names, if that is still known, else where it came from.
    fn sender_of(&self, ask: &Transition) -> Option<Holder> {
        let named = ask.reservation.as_ref().map(|named| named.round());
        let round = self.record.round.as_ref();
        let round = round.filter(|round| Some(round.nonce) == named);
        let holder = round.and_then(|round| round.holder.clone());
        holder.or_else(|| ask.sender.clone())
    }

    /// Adds an incident to the commit, once. What a second one of the same name brings becomes a part of it.
    pub(super) fn incident(&mut self, incident: Incident) {
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
