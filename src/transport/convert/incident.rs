//! Incidents, from the domain to the wire.

use crate::domain::incident::Incident;
use crate::proto::v1 as pb;

use super::{answer, result, span};

/// Writes an incident.
pub(super) fn to_wire(incident: Incident) -> pb::Incident {
    pb::Incident {
        incident_id: incident.id.0,
        resource: Some(answer::resource(&incident.resource)),
        operation_id: incident
            .operation
            .map(|operation| operation.as_str().to_owned())
            .unwrap_or_default(),
        verdict: answer::verdict(incident.verdict).into(),
        rule: incident.rule.as_str().to_owned(),
        explanation: incident.explanation,
        create_time: Some(span::timestamp(incident.time_ms)),
        first_digest: incident
            .first_digest
            .map(|digest| digest.bytes().to_vec().into())
            .unwrap_or_default(),
        digest: incident
            .digest
            .map(|digest| digest.bytes().to_vec().into())
            .unwrap_or_default(),
        evidence: incident.evidence.map(result::to_wire),
        state: incident
            .state
            .map(|state| state.as_str().to_owned())
            .unwrap_or_default(),
    }
}
