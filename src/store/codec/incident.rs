//! Incidents.

use super::field;
use super::operation::{
    digest_bytes, digest_from_bytes, result_from_message, result_to_message, rule, verdict,
};
use crate::domain::decision::IncidentId;
use crate::domain::ids::{Kind, OperationId, ResourceId, StateName};
use crate::domain::incident::{Incident, verdict_code};
use crate::domain::invalid::Invalid;
use crate::proto::store_v1 as pb;

pub(super) fn to_message(incident: &Incident) -> pb::Incident {
    pb::Incident {
        id: incident.id.0.clone(),
        kind: incident.resource.kind().as_str().to_owned(),
        resource_id: incident.resource.id().to_owned(),
        operation: incident
            .operation
            .as_ref()
            .map(|operation| operation.as_str().to_owned())
            .unwrap_or_default(),
        verdict: verdict_code(incident.verdict).into(),
        rule: incident.rule.as_str().to_owned(),
        explanation: incident.explanation.clone(),
        time_ms: incident.time_ms,
        first_digest: incident
            .first_digest
            .as_ref()
            .map(digest_bytes)
            .unwrap_or_default(),
        digest: incident
            .digest
            .as_ref()
            .map(digest_bytes)
            .unwrap_or_default(),
        evidence: incident.evidence.as_ref().map(result_to_message),
        state: incident
            .state
            .as_ref()
            .map(|state| state.as_str().to_owned())
            .unwrap_or_default(),
    }
}

pub(super) fn from_message(message: pb::Incident) -> Result<Incident, Invalid> {
    let kind = field("kind", Kind::parse(&message.kind))?;
    Ok(Incident {
        id: IncidentId(message.id),
        resource: field("resource_id", ResourceId::new(kind, &message.resource_id))?,
        operation: if message.operation.is_empty() {
            None
        } else {
            Some(field("operation", OperationId::parse(&message.operation))?)
        },
        verdict: verdict("verdict", message.verdict)?,
        rule: rule("rule", &message.rule)?,
        explanation: message.explanation,
        time_ms: message.time_ms,
        first_digest: if message.first_digest.is_empty() {
            None
        } else {
            Some(digest_from_bytes("first_digest", &message.first_digest)?)
        },
        digest: if message.digest.is_empty() {
            None
        } else {
            Some(digest_from_bytes("digest", &message.digest)?)
        },
        evidence: message
            .evidence
            .map(|evidence| result_from_message("evidence", evidence))
            .transpose()?,
        state: if message.state.is_empty() {
            None
        } else {
            Some(field("state", StateName::parse(&message.state))?)
        },
    })
}
