//! What a person found out about an operation: it is stored, and the incident that asked for it is closed.

use super::clock::wall_clock_ms;
use super::facade::{Caller, Engine, judged, random_nonce};
use super::fault::Fault;
use super::ticket::{Patience, Progress};
use crate::domain::decision::{Decision, IncidentId, Rule, Verdict};
use crate::domain::ids::{Holder, Reason};
use crate::domain::incident::{Closing, Incident};
use crate::domain::judge::Ask;
use crate::domain::request::Resolve;

/// An incident that a resolution answers.
struct Answered {
    id: IncidentId,
    by: Holder,
    reason: Reason,
    /// How many pieces of evidence there were when it was asked. What has come since nobody has looked into.
    seen: usize,
}

impl Engine {
    /// Stores what a person found out about an operation, and then closes the incident of its claims that died.
    pub async fn resolve(&self, ask: Resolve, caller: Caller) -> Result<Decision, Fault> {
        self.admit(caller)?;
        let progress = Progress::default();
        let (engine, sent) = (self.clone(), progress.clone());
        let work = async move {
            let answered = engine.answered_by(&ask).await;
            let resource = ask.resource.clone();
            let ask = Ask::Resolve(Box::new(ask), random_nonce());
            let asked = engine.ask(&resource, ask, sent, Patience::None);
            let decision = asked.await.map(judged)?;
            Ok(match answered {
                Some(answered) if agrees(&decision) => {
                    engine.close_answered(answered, decision).await
                }
                Some(_) | None => decision,
            })
        };
        self.finish(caller, &progress, work).await
    }

    /// The incident about the operation's dead claims, if it waits for a person.
    async fn answered_by(&self, ask: &Resolve) -> Option<Answered> {
        let (verdict, rule) = (Verdict::Interrupted, Rule::ClaimDied);
        let id = Incident::id_of(&ask.resource, Some(&ask.operation), verdict, rule);
        // A store that does not answer this will not answer what comes next either.
        let found = self.shared.store.incident(&id, 0).await.ok().flatten()?;
        found.is_open().then(|| Answered {
            id,
            by: ask.by.clone(),
            reason: ask.reason.clone(),
            seen: found.evidence_count(),
        })
    }

    /// Closes it, and says so. The resolution stands whatever comes of that: asked again, it is answered as done before, and this
    /// is made up for.
    async fn close_answered(&self, answered: Answered, mut decision: Decision) -> Decision {
        let Answered {
            id,
            by,
            reason,
            seen,
        } = answered;
        let closing = Closing {
            time_ms: wall_clock_ms(),
            by,
            reason,
            evidence: seen,
        };
        let changed = self.shared.store.change_incident(&id, |mut incident| {
            incident.is_open().then(|| {
                incident.closing = Some(closing.clone());
                incident
            })
        });
        let IncidentId(name) = &id;
        let told = match changed.await {
            // Removed meanwhile.
            Ok(None) => return decision,
            Ok(Some(incident)) if !incident.is_open() => format!("its incident {name} is closed"),
            Ok(Some(_)) => {
                format!(
                    "its incident {name} remains open, for another attempt at it has ended meanwhile"
                )
            }
            Err(error) => {
                tracing::warn!(%error, incident = name, "the incident of a resolved operation was not closed");
                format!(
                    "its incident {name} may remain open, for etcd did not answer: resolve it once more, or close it by \
                     `fencepost incidents close {name} --reason TEXT`"
                )
            }
        };
        decision.explanation.push_str("; ");
        decision.explanation.push_str(&told);
        decision.incident = Some(id);
        decision
    }
}

/// Whether the operation stands now as the person says.
fn agrees(decision: &Decision) -> bool {
    matches!(decision.verdict, Verdict::Applied | Verdict::Replayed)
}
