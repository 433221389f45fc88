//! An operation that was decided before: the layers key, digest and replay.

use super::{Draft, Fold, Judged};
use crate::domain::decision::{IncidentId, Layer, Rule, Verdict};
use crate::domain::digest::ContentDigest;
use crate::domain::ids::{Nonce, OperationId};
use crate::domain::incident::Incident;
use crate::domain::outcome::StoredResult;
use crate::domain::record::{Operation, Raised};
use crate::domain::request::Transition;

/// What a piece of evidence is about, as far as that is known.
pub(super) struct About<'a> {
    /// The operation.
    pub(super) operation: Option<&'a OperationId>,
    /// The content that was stored first.
    pub(super) first: Option<&'a ContentDigest>,
    /// The content that the request brought.
    pub(super) digest: Option<&'a ContentDigest>,
}

impl Fold<'_> {
    /// Answers a request whose operation is already finished.
    pub(super) fn repeat(&mut self, ask: &Transition, nonce: Nonce, done: Operation) -> Judged {
        let draft = if done.mark == nonce.mark() {
            // Ours: the commit went through and only its reply was lost.
            self.first_answer(&done)
        } else if done.digest != ask.intent.digest {
            self.conflict(ask, done)
        } else if done.verdict != Verdict::Applied {
            self.refused_again(ask, &done)
        } else {
            self.replay(ask, done)
        };
        Judged::Answered(Box::new(draft))
    }

    /// What the request that decided the operation is told.
    fn first_answer(&self, done: &Operation) -> Draft {
        let draft = verdict_draft(done)
            .expected(&done.expected)
            .incident(self.refusal_of(done));
        let applied = done.verdict == Verdict::Applied;
        let draft = if applied {
            draft.result(done.result.clone())
        } else {
            draft
        };
        self.showing(draft)
    }

    /// What every later request with the same content is told.
    pub(super) fn told_again(&self, done: &Operation) -> Draft {
        let draft = if done.verdict == Verdict::Applied {
            let text = "the operation was done before; this is its first result";
            Draft::new(Verdict::Replayed, Layer::Replay, Rule::SameContent, text)
                .result(done.result.clone())
        } else {
            verdict_draft(done)
                .expected(&done.expected)
                .incident(self.refusal_of(done))
        };
        let draft = match &done.resolved {
            Some(resolution) => draft.adding(&resolution.told()),
            None => draft,
        };
        draft.first_time(done.time_ms).fact()
    }

    fn refused_again(&mut self, ask: &Transition, done: &Operation) -> Draft {
        let draft = self.told_again(done);
        let round = ask.reservation.as_ref().map(|named| named.round());
        if round == done.round {
            return draft;
        }
        if done.rule == Rule::Voided && round.is_some() {
            // A person ended it while its effect may have been under way.
            return self.done_without(ask, done);
        }
        // Another round ran the effect for what was refused already.
        let text = "a result came for an operation that had been refused";
        let raised = self.evidence(ask, done.verdict, done.rule, text, Some(&done.digest));
        let first = self.refusal_of(done);
        draft.incident(first.or(raised))
    }

    fn replay(&mut self, ask: &Transition, done: Operation) -> Draft {
        let Some(reservation) = &ask.reservation else {
            return self.told_again(&done);
        };
        let differs = ask
            .result
            .as_ref()
            .is_some_and(|result| *result != done.result);
        if done.round == Some(reservation.round()) {
            if !differs {
                return self.told_again(&done);
            }
            let text = "the operation was done before in this round, with another result; this is its first result";
            let draft = Draft::new(Verdict::Replayed, Layer::Replay, Rule::OtherResult, text)
                .result(done.result.clone())
                .first_time(done.time_ms);
            let incident = self.raise_about(
                ask,
                done,
                Raised::OTHER_RESULT,
                Verdict::Replayed,
                Rule::OtherResult,
                text,
            );
            return draft.incident(Some(incident)).fact();
        }
        if self.holds(reservation) {
            // True whoever finished it; but that the round is live could have changed.
            let mut draft = self.told_again(&done);
            draft.certainty = super::Certainty::Confirm;
            if differs {
                let (verdict, rule) = (Verdict::Replayed, Rule::OtherResult);
                let text = "the operation was done before, outside this round, with another result";
                let incident = self.evidence(ask, verdict, rule, text, Some(&done.digest));
                return draft.incident(incident);
            }
            return draft;
        }
        self.done_without(ask, &done)
    }

    /// The operation was finished without the round that the request names.
    fn done_without(&mut self, ask: &Transition, done: &Operation) -> Draft {
        let text = "the reservation is over, and the operation was finished without it";
        let draft = Draft::new(Verdict::Fenced, Layer::Replay, Rule::DoneWithoutRound, text);
        let rule = Rule::DoneWithoutRound;
        let incident = self.evidence(ask, Verdict::Fenced, rule, text, Some(&done.digest));
        self.showing(draft.incident(incident))
    }

    fn conflict(&mut self, ask: &Transition, done: Operation) -> Draft {
        let text = "the operation was seen before with other content";
        let time_ms = done.time_ms;
        let (verdict, rule) = (Verdict::Conflict, Rule::OtherContent);
        // What an effect said under a round is kept for each round; else one incident tells it all.
        let incident = self
            .evidence(ask, verdict, rule, text, Some(&done.digest))
            .unwrap_or_else(|| self.raise_about(ask, done, Raised::CONFLICT, verdict, rule, text));
        Draft::new(verdict, Layer::Digest, rule, text)
            .incident(Some(incident))
            .first_time(time_ms)
            .fact()
    }

    /// Raises an incident about a finished operation, once: the operation remembers that it was raised.
    fn raise_about(
        &mut self,
        ask: &Transition,
        mut done: Operation,
        kind: Raised,
        verdict: Verdict,
        rule: Rule,
        text: &str,
    ) -> IncidentId {
        let id = Incident::id_of(self.resource, Some(&done.id), verdict, rule, &[]);
        if done.raised.has(kind) {
            return id;
        }
        done.raised = done.raised.with(kind);
        self.incident(Incident {
            id: id.clone(),
            resource: self.resource.clone(),
            operation: Some(done.id.clone()),
            verdict,
            rule,
            explanation: text.to_owned(),
            time_ms: self.time_ms,
            first_digest: Some(done.digest.clone()),
            digest: Some(ask.intent.digest.clone()),
            evidence: ask.result.clone().filter(|result| !result.is_empty()),
            state: self.record.state.clone(),
        });
        let inline = self
            .record
            .operations
            .iter_mut()
            .find(|operation| operation.id == done.id);
        match inline {
            Some(operation) => {
                *operation = done;
                self.changed = true;
            }
            None => {
                self.bytes += done.size();
                self.moved_out.insert(done.id.clone(), done);
            }
        }
        id
    }

    /// Keeps the result that a round brings and that is not taken: its effect may have run.
    pub(super) fn evidence(
        &mut self,
        ask: &Transition,
        verdict: Verdict,
        rule: Rule,
        text: &str,
        first: Option<&ContentDigest>,
    ) -> Option<IncidentId> {
        let about = About {
            operation: Some(&ask.intent.operation),
            first,
            digest: Some(&ask.intent.digest),
        };
        let round = ask.reservation.as_ref()?.round();
        self.keep_evidence(ask.result.as_ref(), round, &about, verdict, rule, text)
    }

    /// Keeps a result as evidence, unless it is empty.
    pub(super) fn keep_evidence(
        &mut self,
        result: Option<&StoredResult>,
        round: Nonce,
        about: &About<'_>,
        verdict: Verdict,
        rule: Rule,
        text: &str,
    ) -> Option<IncidentId> {
        let evidence = result.filter(|result| !result.is_empty())?.clone();
        // Another result of the same round is another piece of evidence.
        let distinct = [&round.as_bytes()[..], &evidence.fingerprint()[..]].concat();
        let id = Incident::id_of(self.resource, about.operation, verdict, rule, &distinct);
        self.incident(Incident {
            id: id.clone(),
            resource: self.resource.clone(),
            operation: about.operation.cloned(),
            verdict,
            rule,
            explanation: text.to_owned(),
            time_ms: self.time_ms,
            first_digest: about.first.cloned(),
            digest: about.digest.cloned(),
            evidence: Some(evidence),
            state: self.record.state.clone(),
        });
        Some(id)
    }

    /// Adds an incident to the commit, once.
    pub(super) fn incident(&mut self, incident: Incident) {
        if self.incidents.iter().all(|raised| raised.id != incident.id) {
            self.bytes += incident.evidence.as_ref().map_or(0, |result| result.size());
            self.incidents.push(incident);
        }
    }

    fn refusal_of(&self, done: &Operation) -> Option<IncidentId> {
        let raised = done.raised.has(Raised::REFUSAL);
        raised.then(|| Incident::id_of(self.resource, Some(&done.id), done.verdict, done.rule, &[]))
    }
}

/// The judgement that a finished operation carries, in the words it was first given in.
pub(super) fn verdict_draft(done: &Operation) -> Draft {
    let state = done.state.as_ref();
    let (layer, text) = if done.verdict == Verdict::OtherRound {
        (
            Layer::Identity,
            "the message belongs to a round that has been replaced".to_owned(),
        )
    } else if done.rule == Rule::Voided {
        let text = "a person decided that the operation must never be run";
        (Layer::Replay, text.to_owned())
    } else if done.verdict == Verdict::Superseded {
        (Layer::State, super::states::superseded_text(state))
    } else if done.verdict == Verdict::Rejected {
        (Layer::State, super::states::rejected_text(state))
    } else if done.rule == Rule::RanOnce {
        (Layer::Result, "the operation was recorded".to_owned())
    } else {
        (Layer::Result, "the move was made".to_owned())
    };
    Draft::new(done.verdict, layer, done.rule, text)
}
