//! Incidents, and their parts, which look the same.

use bytes::Bytes;

use super::operation::{
    digest_bytes, digest_from_bytes, result_from_message, result_to_message, rule, verdict,
};
use super::{at_most, field, moment, nonce, nonce_bytes, seconds};
use crate::domain::decision::IncidentId;
use crate::domain::digest::{ContentDigest, FIELDS_TOLD_MAX};
use crate::domain::ids::{Holder, Kind, OperationId, Reason, ResourceId, StateName};
use crate::domain::incident::{Closing, Evidence, Incident, verdict_code};
use crate::domain::invalid::Invalid;
use crate::proto::store_v1 as pb;

/// Of the evidence only the first piece is written: the others are in parts of their own.
pub(super) fn to_message(incident: &Incident) -> pb::Incident {
    let evidence = incident.evidence.first();
    let sender = incident.sender.as_ref();
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
        first_digest: maybe_digest_bytes(incident.first_digest.as_ref()),
        digest: maybe_digest_bytes(incident.digest.as_ref()),
        evidence: evidence.map(|evidence| result_to_message(&evidence.result)),
        state: incident
            .state
            .as_ref()
            .map(|state| state.as_str().to_owned())
            .unwrap_or_default(),
        again: incident.again,
        last_ms: if incident.last_ms == incident.time_ms {
            0
        } else {
            incident.last_ms
        },
        sender: sender
            .map(|name| name.as_str().to_owned())
            .unwrap_or_default(),
        fields: incident.fields.clone(),
        closing: incident.closing.as_ref().map(|closing| pb::Closing {
            time_ms: closing.time_ms,
            by: closing.by.as_str().to_owned(),
            reason: closing.reason.as_str().to_owned(),
            evidence: u32::try_from(closing.evidence).unwrap_or(u32::MAX),
        }),
        round: evidence
            .and_then(|evidence| evidence.round)
            .map(nonce_bytes)
            .unwrap_or_default(),
        last_digest: maybe_digest_bytes(incident.last_digest.as_ref()),
        expiry: seconds(incident.expiry),
        unkept: incident.unkept,
    }
}

pub(super) fn from_message(message: pb::Incident) -> Result<Incident, Invalid> {
    let kind = field("kind", Kind::parse(&message.kind))?;
    let digest = maybe_digest("digest", &message.digest)?;
    let sender = match message.sender.as_str() {
        "" => None,
        sender => Some(field("sender", Holder::parse(sender))?),
    };
    at_most("fields", message.fields.len(), FIELDS_TOLD_MAX)?;
    let round = match &message.round[..] {
        [] => None,
        round => Some(nonce("round", round)?),
    };
    let evidence = match message.evidence {
        Some(result) => vec![Evidence {
            result: result_from_message("evidence", result)?,
            round,
            digest: digest.clone(),
            sender: sender.clone(),
            time_ms: message.time_ms,
        }],
        None => Vec::new(),
    };
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
        first_digest: maybe_digest("first_digest", &message.first_digest)?,
        digest,
        evidence,
        more_evidence: 0,
        unkept: message.unkept,
        state: match message.state.as_str() {
            "" => None,
            state => Some(field("state", StateName::parse(state))?),
        },
        sender,
        fields: message.fields,
        again: message.again,
        last_ms: match message.last_ms {
            0 => message.time_ms,
            last => last,
        },
        last_digest: maybe_digest("last_digest", &message.last_digest)?,
        closing: message.closing.map(closing).transpose()?,
        expiry: moment(message.expiry),
    })
}

fn closing(message: pb::Closing) -> Result<Closing, Invalid> {
    Ok(Closing {
        time_ms: message.time_ms,
        by: field("closing.by", Holder::parse(&message.by))?,
        reason: field("closing.reason", Reason::parse(&message.reason))?,
        evidence: usize::try_from(message.evidence).unwrap_or(usize::MAX),
    })
}

/// Empty: none.
fn maybe_digest_bytes(digest: Option<&ContentDigest>) -> Bytes {
    digest.map(digest_bytes).unwrap_or_default()
}

/// Empty: none.
fn maybe_digest(name: &str, bytes: &[u8]) -> Result<Option<ContentDigest>, Invalid> {
    if bytes.is_empty() {
        return Ok(None);
    }
    digest_from_bytes(name, bytes).map(Some)
}
