//! An operation that was decided before: the layers key, digest and replay.

use std::borrow::Cow;

use super::alert::{About, Found};
use super::law::read_under;
use super::{Certainty, Draft, Fold, Judged, Law, Unlawful};
use crate::domain::decision::{Advice, IncidentId, Layer, Rule, Verdict};
use crate::domain::digest::{ContentDigest, DigestScheme};
use crate::domain::ids::{EventName, Nonce};
use crate::domain::incident::Incident;
use crate::domain::machine::{DigestRule, MachineVersion};
use crate::domain::record::{Operation, Raised};
use crate::domain::request::Transition;

impl Fold<'_> {
    /// The request, with its content read as the operation's was.
    pub(super) fn comparable<'t>(
        &mut self,
        ask: &'t Transition,
        stored: &ContentDigest,
        judged: Option<(&EventName, MachineVersion)>,
    ) -> Result<Cow<'t, Transition>, Unlawful> {
        let json = |digest: &ContentDigest| digest.scheme() == DigestScheme::JsonV1;
        // Of all others no part can be chosen: they are compared as they are, or were not compared at all.
        if !json(stored) || !json(&ask.intent.digest) {
            return Ok(Cow::Borrowed(ask));
        }
        match self.rule_then(judged) {
            Ok(rule) => read_under(ask, rule),
            // The whole content in the form that is stored says the same under every rule that leaves that form.
            Err(unlawful) => {
                let whole = read_under(ask, &DigestRule::Whole)?;
                let same = whole.intent.says_the_same(stored);
                if same { Ok(whole) } else { Err(unlawful) }
            }
        }
    }

    /// Answers a request whose operation is already finished.
    pub(super) fn repeat(&mut self, ask: &Transition, nonce: Nonce, done: Operation) -> Judged {
        let expired = done.expired(self.when.now);
        let event = done.event.clone();
        if done.mark == nonce.mark() {
            // Ours: the commit went through and only its reply was lost.
            let draft = self.first_answer(ask, &done).of_event(event);
            return Judged::Answered(Box::new(draft));
        }
        let id = done.id.clone();
        *self.again.entry(id.clone()).or_default() += 1;
        let deliveries = self.deliveries(&done);
        let without = done.digest.scheme() == DigestScheme::None;
        let mut draft = if !without && !ask.intent.says_the_same(&done.digest) {
            self.conflict(ask, done, Rule::OtherContent).fact()
        } else if self.is_another_event(ask, done.event.as_ref(), done.machine) {
            // Whether two names mean one event is for the law in force to say.
            self.conflict(ask, done, Rule::OtherEvent)
        } else if done.verdict != Verdict::Applied {
            self.refused_again(ask, &done)
        } else {
            self.replay(ask, done)
        };
        if expired {
            // It is answered for as long as it is stored, which memory alone cannot tell.
            draft.certainty = Certainty::Confirm;
        }
        let draft = draft.deliveries(deliveries).repeating(&id).of_event(event);
        Judged::Answered(Box::new(draft))
    }

    /// How often an operation was delivered, as far as that is known here.
    pub(super) fn deliveries(&self, done: &Operation) -> u32 {
        let here = self.again.get(&done.id).copied().unwrap_or_default();
        let unsaved = self.standing.unsaved(&done.id);
        done.deliveries.and(unsaved).and(here).get()
    }

    /// Whether a request names another event than the operation was. An operation that no machine judged was none.
    pub(super) fn is_another_event(
        &mut self,
        ask: &Transition,
        judged: Option<&EventName>,
        version: Option<MachineVersion>,
    ) -> bool {
        let (Some(named), Some(judged)) = (&ask.intent.event, judged) else {
            return false;
        };
        !self.is_one_event((judged, version), named)
    }

    /// Whether two names mean one event. That they do stays so; that they do not is for the law in force to say.
    pub(super) fn is_one_event(
        &mut self,
        judged: (&EventName, Option<MachineVersion>),
        named: &EventName,
    ) -> bool {
        let one = judged.0 == named
            || match self.law {
                Law::Machine(law) => law.same_event(judged, named),
                Law::NoFile | Law::Unreadable(_) => false,
            };
        self.lawful |= !one;
        one
    }

    /// What the request that decided the operation is told.
    fn first_answer(&self, ask: &Transition, done: &Operation) -> Draft {
        let draft = verdict_draft(done)
            .expected(&done.expected)
            .incident(self.refusal_of(done));
        let applied = done.verdict == Verdict::Applied;
        let draft = if applied {
            draft
                .result(done.result.clone())
                .same_content_as(self.twin_of(&ask.intent, done))
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
        let draft = match &done.outcome {
            Some(outcome) => draft.adding(&format!("it turned out as event {}", outcome.event)),
            None => draft,
        };
        let draft = match &done.resolved {
            Some(resolution) => draft.resolved(resolution),
            None => draft,
        };
        draft.first_time(done.time_ms).fact()
    }

    fn refused_again(&mut self, ask: &Transition, done: &Operation) -> Draft {
        let draft = self.told_again(done);
        if done.rule == Rule::Voided && ask.reservation.is_some() {
            // A person ended it while its effect may have been under way.
            return self.done_without(ask, done);
        }
        // Its effect ran for what was refused already, perhaps once more: by the same caller or another, under a round or none.
        let text = "a result came for an operation that had been refused";
        let found = Found::new(done.verdict, done.rule, text);
        let about = About::message(ask, Some(&done.digest));
        let raised = self.evidence(&about, ask.result.as_ref(), found);
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
            if self.turned_out_otherwise(&done, ask.outcome.as_ref()) {
                return self.another_outcome(ask, &done);
            }
            if !differs {
                return self.told_again(&done);
            }
            let text = "the operation was done before in this round, with another result; this is its first result";
            let draft = Draft::new(Verdict::Replayed, Layer::Replay, Rule::OtherResult, text)
                .result(done.result.clone())
                .first_time(done.time_ms);
            let result = ask.result.clone().unwrap_or_default();
            let found = Found::new(Verdict::Replayed, Rule::OtherResult, text);
            let about = About::message(ask, Some(&done.digest));
            let incident = self.keep_evidence(&about, result, found);
            return draft.incident(Some(incident)).fact();
        }
        if self.holds(reservation) {
            let named = ask.outcome.as_ref();
            if named.is_some() && self.turned_out_otherwise(&done, named) {
                return self.another_outcome(ask, &done);
            }
            // True whoever finished it; but that the round is live could have changed.
            let mut draft = self.told_again(&done);
            draft.certainty = Certainty::Confirm;
            if differs {
                let text = "the operation was done before, outside this round, with another result";
                let found = Found::new(Verdict::Replayed, Rule::OtherResult, text);
                let about = About::message(ask, Some(&done.digest));
                let incident = self.evidence(&about, ask.result.as_ref(), found);
                return draft.incident(incident);
            }
            return draft;
        }
        self.done_without(ask, &done)
    }

    /// The round says that the effect turned out as another event than the one whose move was made.
    fn another_outcome(&mut self, ask: &Transition, done: &Operation) -> Draft {
        let made = done.outcome.as_ref().map(|outcome| &outcome.event);
        let text = format!(
            "the operation was done before {}, and not {}; this is its first result",
            turned_out(made),
            turned_out(ask.outcome.as_ref())
        );
        let (verdict, rule) = (Verdict::Replayed, Rule::OtherOutcome);
        let result = ask.result.clone().unwrap_or_default();
        let about = About::message(ask, Some(&done.digest));
        // Also without a result: that it turned out otherwise is what a person must know.
        let incident = self.keep_evidence(&about, result, Found::new(verdict, rule, &text));
        Draft::new(verdict, Layer::Replay, rule, text)
            .result(done.result.clone())
            .first_time(done.time_ms)
            .incident(Some(incident))
    }

    /// The operation was finished without the round that the request names.
    fn done_without(&mut self, ask: &Transition, done: &Operation) -> Draft {
        let text = "the reservation is over, and the operation was finished without it";
        let draft = Draft::new(Verdict::Fenced, Layer::Replay, Rule::DoneWithoutRound, text);
        let found = Found::new(Verdict::Fenced, Rule::DoneWithoutRound, text);
        let about = About::message(ask, Some(&done.digest));
        let incident = self.evidence(&about, ask.result.as_ref(), found);
        self.showing(draft.incident(incident))
    }

    fn conflict(&mut self, ask: &Transition, done: Operation, rule: Rule) -> Draft {
        let verdict = Verdict::Conflict;
        let settled = done.keeps_retrying.then_some(Advice::Acknowledge);
        let text = conflict_text(rule, &done.digest, &ask.intent.digest);
        let beside = &ask.intent.beside;
        let fields = if rule == Rule::OtherEvent {
            Vec::new()
        } else {
            beside.differing(&done.digest, &done.fields, done.mark)
        };
        let found = Found {
            fields: &fields,
            ..Found::new(verdict, rule, &text)
        };
        let time_ms = done.time_ms;
        let about = About::message(ask, Some(&done.digest));
        let incident = match self.evidence(&about, ask.result.as_ref(), found) {
            Some(incident) => incident,
            None => self.raise_conflict(ask, done, found),
        };
        Draft::new(verdict, Layer::Digest, rule, text)
            .advising(settled)
            .incident(Some(incident))
            .differing(fields)
            .first_time(time_ms)
    }

    /// Raises an incident about a conflict that brought no result, once: the operation remembers that it was raised.
    fn raise_conflict(
        &mut self,
        ask: &Transition,
        mut done: Operation,
        found: Found<'_>,
    ) -> IncidentId {
        let about = About::message(ask, Some(&done.digest));
        let incident = self.found(&about, found);
        let id = incident.id.clone();
        let raised = Raised::conflict(found.rule);
        if done.raised.has(raised) {
            return id;
        }
        self.incident(incident);
        done.raised = done.raised.with(raised);
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

    fn refusal_of(&self, done: &Operation) -> Option<IncidentId> {
        let raised = done.raised.has(Raised::REFUSAL);
        raised.then(|| Incident::id_of(self.resource, Some(&done.id), done.verdict, done.rule))
    }
}

fn turned_out(outcome: Option<&EventName>) -> String {
    outcome.map_or_else(
        || "as it was claimed".to_owned(),
        |event| format!("with the outcome {event}"),
    )
}

/// Another content came under the same key.
pub(super) fn conflict_text(rule: Rule, first: &ContentDigest, now: &ContentDigest) -> String {
    if rule == Rule::OtherEvent {
        return "the operation was seen before as another event".to_owned();
    }
    let (first, now) = (first.scheme(), now.scheme());
    if first == now {
        return "the operation was seen before with other content".to_owned();
    }
    // The same content in another form cannot be told from another content.
    format!("the operation was seen before with a content in another form: {first} then, {now} now")
}

/// The judgement that a finished operation carries, in the words it was first given in.
pub(super) fn verdict_draft(done: &Operation) -> Draft {
    let (state, rule) = (done.state.as_ref(), done.rule);
    let settled = done.verdict == Verdict::Rejected && done.keeps_retrying;
    let (layer, text) = if done.verdict == Verdict::OtherRound {
        (
            Layer::Identity,
            "the message belongs to a round that has been replaced".to_owned(),
        )
    } else if done.rule == Rule::Voided {
        let text = "a person decided that the operation must never be run";
        (Layer::Replay, text.to_owned())
    } else if done.verdict == Verdict::Superseded {
        (Layer::State, super::states::superseded_text(rule, state))
    } else if rule == Rule::Forgotten {
        (Layer::State, super::sweep::FORGOTTEN_TEXT.to_owned())
    } else if done.verdict == Verdict::Rejected {
        let layer = if rule == Rule::NeverKnown {
            Layer::Identity
        } else {
            Layer::State
        };
        (layer, super::states::rejected_text(rule, state))
    } else if done.rule == Rule::RanOnce {
        (Layer::Result, "the operation was recorded".to_owned())
    } else {
        (Layer::Result, "the move was made".to_owned())
    };
    Draft::new(done.verdict, layer, rule, text).advising(settled.then_some(Advice::Acknowledge))
}
