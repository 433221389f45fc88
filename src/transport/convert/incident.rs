//! Incidents, in and out.

use crate::domain::decision::IncidentId;
use crate::domain::digest::ContentDigest;
use crate::domain::ids::{Holder, Reason, ReservationId, ResourceId};
use crate::domain::incident::{Evidence, Incident};
use crate::engine::{ClosedBefore, Fault};
use crate::proto::v1 as pb;

use super::{answer, at, present, refused, result, span};

/// Longest id of an incident, in bytes: more than any has.
const ID_BYTES_MAX: usize = 128;

/// Reads which incident to show, and how much of its evidence to skip.
pub(crate) fn get(request: &pb::GetIncidentRequest) -> Result<(IncidentId, usize), Fault> {
    let skip = usize::try_from(request.skip_evidence).map_err(|_| {
        refused(
            "skip_evidence",
            format!("is {}; it must not be negative", request.skip_evidence),
        )
    })?;
    Ok((id(&request.incident_id)?, skip))
}

/// Reads which incident to close, who closes it and why. `peer` names the caller where it does not name itself.
pub(crate) fn close(
    request: &pb::CloseIncidentRequest,
    peer: &str,
) -> Result<(IncidentId, Holder, Reason), Fault> {
    let id = id(&request.incident_id)?;
    let by = present(&request.closed_by).unwrap_or(peer);
    let reason = at("reason", Reason::parse(&request.reason))?;
    Ok((id, at("closed_by", Holder::parse(by))?, reason))
}

fn id(text: &str) -> Result<IncidentId, Fault> {
    match text.len() {
        0 => Err(refused("incident_id", "is required")),
        1..=ID_BYTES_MAX => Ok(IncidentId(text.to_owned())),
        length => Err(refused(
            "incident_id",
            format!("is {length} bytes long, which no incident's is"),
        )),
    }
}

/// Writes an incident that is closed.
pub(crate) fn closed(
    incident: Incident,
    ClosedBefore(closed_before): ClosedBefore,
) -> pb::CloseIncidentResponse {
    pb::CloseIncidentResponse {
        incident: Some(to_wire(incident)),
        closed_before,
    }
}

/// Writes an incident.
pub(crate) fn to_wire(incident: Incident) -> pb::Incident {
    let status = if incident.is_open() {
        pb::IncidentStatus::Open
    } else {
        pb::IncidentStatus::Closed
    };
    pb::Incident {
        resource: Some(answer::resource(&incident.resource)),
        operation_id: incident
            .operation
            .as_ref()
            .map(|operation| operation.as_str().to_owned())
            .unwrap_or_default(),
        verdict: answer::verdict(incident.verdict).into(),
        rule: incident.rule.as_str().to_owned(),
        create_time: Some(span::timestamp(incident.time_ms)),
        first_digest: digest(incident.first_digest.as_ref()),
        digest: digest(incident.digest.as_ref()),
        state: incident
            .state
            .as_ref()
            .map(|state| state.as_str().to_owned())
            .unwrap_or_default(),
        count: i64::from(incident.again) + 1,
        last_time: Some(span::timestamp(incident.last_ms)),
        sender: name(incident.sender.as_ref()),
        status: status.into(),
        evidence_count: i64::try_from(incident.evidence_count()).unwrap_or(i64::MAX),
        closing: incident.closing.as_ref().map(|closing| pb::Closing {
            close_time: Some(span::timestamp(closing.time_ms)),
            closed_by: name(Some(&closing.by)),
            reason: closing.reason.to_string(),
        }),
        last_digest: digest(incident.last_digest.as_ref()),
        evidence_not_kept: i64::from(incident.unkept),
        evidence: incident
            .evidence
            .into_iter()
            .map(|evidence| evidence_to_wire(&incident.resource, evidence))
            .collect(),
        explanation: incident.explanation,
        differing_fields: incident.fields,
        incident_id: incident.id.0,
    }
}

fn evidence_to_wire(resource: &ResourceId, evidence: Evidence) -> pb::Evidence {
    let round = evidence.round;
    pb::Evidence {
        result: Some(result::to_wire(evidence.result)),
        create_time: Some(span::timestamp(evidence.time_ms)),
        digest: digest(evidence.digest.as_ref()),
        sender: name(evidence.sender.as_ref()),
        reservation_id: round.map_or_else(String::new, |round| {
            ReservationId::new(resource.clone(), round).to_string()
        }),
    }
}

fn digest(digest: Option<&ContentDigest>) -> bytes::Bytes {
    digest.map_or_else(bytes::Bytes::new, |digest| digest.bytes().to_vec().into())
}

fn name(name: Option<&Holder>) -> String {
    name.map_or_else(String::new, |name| name.as_str().to_owned())
}
