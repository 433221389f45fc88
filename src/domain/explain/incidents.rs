//! What a person must judge or has judged.

use std::collections::BTreeSet;

use super::words::{self, at, count, list};
use super::{Telling, Topic};
use crate::domain::decision::{IncidentId, Rule, Verdict};
use crate::domain::ids::{OperationId, ResourceId};
use crate::domain::incident::Incident;

/// Every finding that an incident can be about. The key of an incident follows from its resource, its operation and its
/// finding, so those of an operation are found without looking through all.
const FINDINGS: [(Verdict, Rule); 19] = [
    (Verdict::Conflict, Rule::OtherContent),
    (Verdict::Conflict, Rule::OtherEvent),
    (Verdict::Replayed, Rule::OtherResult),
    (Verdict::Replayed, Rule::OtherOutcome),
    (Verdict::Fenced, Rule::Over),
    (Verdict::Fenced, Rule::DoneWithoutRound),
    (Verdict::Expired, Rule::TooOld),
    (Verdict::Superseded, Rule::AlreadyMoved),
    (Verdict::Superseded, Rule::AsSaid),
    (Verdict::OtherRound, Rule::Replaced),
    (Verdict::Rejected, Rule::Passed),
    (Verdict::Rejected, Rule::CannotCome),
    (Verdict::Rejected, Rule::AsSaid),
    (Verdict::Rejected, Rule::NeverKnown),
    (Verdict::Rejected, Rule::Forgotten),
    (Verdict::Rejected, Rule::Voided),
    (Verdict::Interrupted, Rule::ClaimDied),
    (Verdict::Interrupted, Rule::NeedsClaim),
    (Verdict::Busy, Rule::Held),
];

/// The ids of all incidents that there can be about an operation; `None`: about rounds of which it is not known what they
/// claimed.
pub fn incident_ids(
    resource: &ResourceId,
    operation: Option<&OperationId>,
) -> impl Iterator<Item = IncidentId> {
    let of = move |(verdict, rule)| Incident::id_of(resource, operation, verdict, rule);
    FINDINGS.into_iter().map(of)
}

impl Telling<'_> {
    /// Incidents about the operations told of, in the order in which they were found first.
    pub(super) fn incidents(&mut self) {
        let gathered = self.gathered;
        for incident in &gathered.incidents {
            let text = self.of_incident(incident);
            self.say(Topic::Incident, text);
        }
        if gathered.more_incidents > 0 {
            let text = format!(
                "… and {} more about these operations.",
                gathered.more_incidents
            );
            self.say(Topic::Incident, text);
        }
        let (told, beside) = gathered.told();
        let some = !told.is_empty() || !self.look.open.is_empty() || gathered.asked.is_some();
        if gathered.incidents.is_empty() && some {
            self.say(
                Topic::Incident,
                "There is no incident about these operations.",
            );
        }
        if beside > 0 || self.look.snapshot.revision.is_none() {
            let kind = gathered.resource.kind();
            let text = format!(
                "Incidents about other operations are not looked for; `fencepost incidents --kind {kind}` lists all."
            );
            self.say(Topic::Incident, text);
        }
    }

    fn of_incident(&self, incident: &Incident) -> String {
        let now = self.gathered.when.wall_ms;
        let mut text = format!(
            "Incident {} about {}: {}",
            incident.id.0,
            incident.operation.as_ref().map_or_else(
                || "an operation that is not known any more".to_owned(),
                |id| format!("{id:?}")
            ),
            finding(incident)
        );
        let times = u64::from(incident.again) + 1;
        let first = at(incident.time_ms, now);
        text.push_str(&format!(
            "; found {}, first at {first}",
            count(times, "time", "times")
        ));
        if incident.again > 0 {
            text.push_str(&format!(", last at {}", at(incident.last_ms, now)));
        }
        if let Some(sender) = &incident.sender {
            text.push_str(&format!(", first from {sender:?}"));
        }
        let evidence = u64::try_from(incident.evidence_count()).unwrap_or(u64::MAX);
        if evidence > 0 {
            let results = if incident.rule == Rule::ClaimDied {
                // Mostly nobody sent anything.
                count(
                    evidence,
                    "claim that died, or result that came too late, is kept",
                    "claims that died, or results that came too late, are kept",
                )
            } else {
                count(
                    evidence,
                    "result that was not taken is kept",
                    "results that were not taken are kept",
                )
            };
            text.push_str(&format!("; {results}: the effect may have run"));
            if let Some(codes) = codes(incident) {
                text.push_str(&codes);
            }
        }
        if incident.unkept > 0 {
            let more = count(
                incident.unkept.into(),
                "delivery brought a result that was not kept, for it is full",
                "deliveries brought results that were not kept, for it is full",
            );
            text.push_str(&format!("; {more}"));
        }
        text.push_str(&match (&incident.closing, incident.is_open()) {
            (_, true) => ". It is open.".to_owned(),
            (Some(closing), false) => {
                let by = &closing.by;
                format!(
                    ". {by:?} closed it at {}: {:?}.",
                    at(closing.time_ms, now),
                    closing.reason.to_string()
                )
            }
            (None, false) => ". It is closed.".to_owned(),
        });
        text
    }
}

/// The outward codes among the evidence at hand. They are numbers without content, and the first that whoever has to judge asks for.
fn codes(incident: &Incident) -> Option<String> {
    let codes = incident.evidence.iter().map(|one| one.result.code);
    let codes: BTreeSet<u32> = codes.filter(|code| *code != 0).collect();
    if codes.is_empty() {
        return None;
    }
    let name = if codes.len() == 1 { "code" } else { "codes" };
    let codes = codes.iter().map(ToString::to_string);
    Some(format!(", and it ended with {name} {}", list(codes)))
}

/// What was found, and where the contents differ.
pub(super) fn finding(incident: &Incident) -> String {
    let mut text = format!(
        "{} ({}), {}",
        words::verdict(incident.verdict),
        incident.rule.as_str(),
        incident.explanation
    );
    if !incident.fields.is_empty() {
        let fields = incident.fields.iter().map(|field| match field.as_str() {
            "" => "the content as a whole".to_owned(),
            field => format!("{field:?}"),
        });
        text.push_str(&format!("; it differs at {}", list(fields)));
    }
    text
}
