//! Incidents for people.

use super::table::{Table, hex, pointers, resource, stored, verdict_name};
use crate::proto::v1::{Evidence, Incident, IncidentStatus};

impl Table {
    /// What a person must judge.
    pub(super) fn incident(&mut self, incident: &Incident) -> &mut Self {
        self.row("incident", &incident.incident_id)
            .row("resource", resource(incident.resource.as_ref()))
            .row("operation", &incident.operation_id)
            .row(
                "found",
                format!(
                    "{}, rule {}",
                    verdict_name(incident.verdict()),
                    incident.rule
                ),
            )
            .row("explanation", &incident.explanation)
            .row("differs at", pointers(&incident.differing_fields))
            .row("state then", &incident.state)
            .row("sent by", &incident.sender);
        if let Some(time) = &incident.create_time {
            self.row("first found", time.to_string());
        }
        if incident.count > 1
            && let Some(time) = &incident.last_time
        {
            let count = incident.count;
            self.row("how often", format!("{count} times, last {time}"));
        }
        self.row("digest", hex(&incident.digest))
            .row("first digest", hex(&incident.first_digest))
            .row("last digest", hex(&incident.last_digest));
        if incident.evidence_count > 0 {
            let count = incident.evidence_count;
            let pieces = if count == 1 { "piece" } else { "pieces" };
            self.row(
                "evidence",
                format!("{count} {pieces}: results not taken, and claims that died"),
            );
        }
        if incident.evidence_not_kept > 0 {
            let count = incident.evidence_not_kept;
            self.row(
                "not kept",
                format!("{count} more, for the incident is full"),
            );
        }
        match (incident.status(), how_closed(incident)) {
            (IncidentStatus::Open, None) => self.row("status", "open"),
            (IncidentStatus::Open, Some(closing)) => {
                self.row("status", format!("open again; was closed {closing}"))
            }
            (IncidentStatus::Closed, closing) => {
                self.row("status", format!("closed {}", closing.unwrap_or_default()))
            }
            (IncidentStatus::Unspecified, _) => self,
        }
    }

    /// A result that was not taken.
    pub(super) fn evidence(&mut self, evidence: &Evidence) -> &mut Self {
        let result = evidence.result.as_ref();
        match result.filter(|result| **result != crate::proto::v1::Result::default()) {
            Some(result) => self.row("not taken", stored(result)),
            // Nobody sent anything; it was found by whoever came next.
            None => self.row(
                "died",
                "a claim ended without a result; its effect may have run",
            ),
        };
        let mut from = evidence.sender.clone();
        if let Some(time) = &evidence.create_time {
            from.push_str(&format!(" at {time}"));
        }
        self.row("  from", from)
            .row("  under", &evidence.reservation_id)
    }
}

/// When an incident was closed last, by whom and why.
pub(super) fn how_closed(incident: &Incident) -> Option<String> {
    let closing = incident.closing.as_ref()?;
    let time = closing.close_time.as_ref().map(ToString::to_string);
    let time = time.unwrap_or_default();
    Some(format!(
        "{time} by {}: {}",
        closing.closed_by, closing.reason
    ))
}
