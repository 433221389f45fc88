//! Transition: key → digest → replay → fence → identity → state → result. The first layer that objects decides.

use std::time::Duration;

use super::alert::{About, Found};
use super::interrupted::Condition;
use super::repeat::verdict_draft;
use super::{Draft, Fold, Judged, Known, ReservationChange};
use crate::domain::claim::OpenOperation;
use crate::domain::decision::{Layer, Rule, Verdict};
use crate::domain::ids::{Nonce, OperationId};
use crate::domain::outcome::StoredResult;
use crate::domain::record::{
    Deliveries, IDENTITY_NAMES_REMEMBERED_MAX, NamedValue, Operation, REPLACED_VALUES_MAX, Raised,
    Record, ValueHash,
};
use crate::domain::request::{Afterwards, Identity, Intent, Left, Transition};

/// When to ask again for what is not allowed yet.
pub(super) const EARLY_RETRY: Duration = Duration::from_secs(1);

/// What the layers after replay found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Objection {
    pub(super) verdict: Verdict,
    pub(super) rule: Rule,
}

/// Why an intent may not take effect now.
#[derive(Debug)]
pub(super) enum Obstacle {
    /// The message's round or the state stands against it.
    Objection(Objection, Layer),
    /// It would make the record remember more than it may.
    Limit(Judged),
}

impl Fold<'_> {
    pub(super) fn transition(&mut self, ask: &Transition, nonce: Nonce) -> Judged {
        match self.known(&ask.intent.operation) {
            Known::Finished(done) => return self.repeat(ask, nonce, *done),
            Known::Open(open) => {
                if let Some(judged) = self.transition_of_open(ask, nonce, &open) {
                    return judged;
                }
            }
            Known::Unknown => {}
        }
        if let Some(made_ms) = ask.intent.made_ms
            && self.when.too_old(made_ms)
        {
            return self.too_old(ask);
        }
        if let Some(refused) = self.stopped_by_fence(ask) {
            return refused;
        }
        if let Some(waits) = self.waits(&ask.intent) {
            return Judged::Answered(Box::new(waits));
        }
        match self.allows(&ask.intent) {
            Ok(()) => self.applied(ask, nonce),
            Err(Obstacle::Objection(objection, layer)) => {
                self.turned_away(ask, nonce, objection, layer)
            }
            Err(Obstacle::Limit(limit)) => limit,
        }
    }

    /// The law: the layers identity and state. An open operation is judged by it when its claim is granted, and its intent,
    /// kept with the claim, is what then takes effect.
    pub(super) fn allows(&self, intent: &Intent) -> Result<(), Obstacle> {
        if let Some(objection) = self.record.is_forgotten_for(intent) {
            return Err(Obstacle::Objection(objection, Layer::State));
        }
        if let Some(objection) = self.record.objects_to_identity(&intent.identity) {
            return Err(Obstacle::Objection(objection, Layer::Identity));
        }
        let Some(movement) = &intent.movement else {
            return Ok(());
        };
        if let Some(objection) = self.record.objects_to_move(intent, movement) {
            return Err(Obstacle::Objection(objection, Layer::State));
        }
        match self.record.over_limit(movement) {
            Some(limit) => Err(Obstacle::Limit(limit)),
            None => Ok(()),
        }
    }

    /// A message whose operation is claimed, or was. `None`: it was given back, and is judged as if it were new.
    fn transition_of_open(
        &mut self,
        ask: &Transition,
        nonce: Nonce,
        open: &OpenOperation,
    ) -> Option<Judged> {
        if !ask.intent.says_the_same(&open.intent.digest) {
            let draft = self.conflict_with_open(ask, open);
            return Some(self.delivered_again(open, draft));
        }
        let condition = self.condition(open);
        if let Some(reservation) = &ask.reservation {
            if !self.holds(reservation) {
                return self.stopped_by_fence(ask);
            }
            if condition == Condition::Running {
                return Some(self.completed(ask, nonce, open));
            }
        }
        let draft = match condition {
            Condition::Running => self.in_progress(open),
            Condition::Reruns => self.needs_claim(open),
            Condition::Asks => self.reported(open),
            Condition::Returned => return None,
        };
        Some(self.delivered_again(open, draft))
    }

    fn stopped_by_fence(&mut self, ask: &Transition) -> Option<Judged> {
        match &ask.reservation {
            Some(reservation) if self.holds(reservation) => {
                // A round that was granted in this very commit cannot end with it.
                let ends = ask.afterwards == Some(Afterwards::Ends);
                (ends && self.reservation != ReservationChange::Keep).then_some(Judged::Later)
            }
            Some(reservation) => {
                let about = About::message(ask, None);
                Some(self.fenced_off(reservation, ask.result.as_ref(), &about))
            }
            None => {
                let (round, _) = self.live_round()?;
                Some(Judged::Answered(Box::new(self.showing(self.busy(round)))))
            }
        }
    }

    fn applied(&mut self, ask: &Transition, nonce: Nonce) -> Judged {
        let result = ask.result.clone().unwrap_or_default();
        let rule = self.take_effect(&ask.intent);
        let objection = Objection {
            verdict: Verdict::Applied,
            rule,
        };
        let operation = self.finished(ask, nonce, objection, result.clone());
        let mut draft = verdict_draft(&operation)
            .result(result)
            .same_content_as(self.twin_of(&ask.intent, rule));
        self.keep(operation);
        if ask.afterwards == Some(Afterwards::Ends) && ask.reservation.is_some() {
            draft = self.end_round(draft, nonce, Left::Unsaid);
        }
        Judged::Answered(Box::new(self.showing(draft)))
    }

    /// Another operation that did the same with the same content, as far as the record shows at once.
    pub(super) fn twin_of(&self, intent: &Intent, rule: Rule) -> Option<OperationId> {
        if !intent.beside.says_something() {
            return None;
        }
        // Those before it, for one whose reply was lost is in the record itself.
        let inline = self.record.operations.iter();
        let before = inline.take_while(|other| other.id != intent.operation);
        let twin = before.filter(|other| {
            other.verdict == Verdict::Applied
                && other.rule == rule
                && other.fields.same_move(intent.movement.as_ref())
                && intent.says_the_same(&other.digest)
        });
        twin.last().map(|other| other.id.clone())
    }

    /// Stores a "no" that a duplicate must get again; passes on one that may become a "yes".
    pub(super) fn turned_away(
        &mut self,
        ask: &Transition,
        nonce: Nonce,
        objection: Objection,
        layer: Layer,
    ) -> Judged {
        let Objection { verdict, rule } = objection;
        if verdict == Verdict::TooEarly {
            let text = super::states::early_text(rule, self.record.state.as_ref());
            let draft = Draft::new(verdict, layer, rule, text)
                .retry_after(EARLY_RETRY)
                .expected(&ask.intent.from);
            return Judged::Answered(Box::new(self.showing(draft)));
        }
        let mut operation = self.finished(ask, nonce, objection, StoredResult::default());
        let mut draft = verdict_draft(&operation);
        let evidence = ask.result.clone().filter(|result| !result.is_empty());
        if layer == Layer::State {
            operation.expected.clone_from(&ask.intent.from);
            draft = draft.expected(&ask.intent.from);
        }
        // A message of a replaced round is settled quietly, unless it says that its effect ran.
        // So is one whose earlier attempt died: its effect may have run.
        let died = self.record.open(&operation.id);
        let died = died.is_some_and(|open| !open.claim.returned);
        if layer == Layer::State || evidence.is_some() || died {
            operation.raised = Raised::REFUSAL;
            let found = Found::new(verdict, rule, draft.explanation());
            let about = About::message(ask, None);
            let mut incident = self.found(&about, found);
            incident.evidence = evidence
                .map(|result| self.evidence_of(&about, result))
                .into_iter()
                .collect();
            draft = draft.incident(Some(incident.id.clone()));
            self.incident(incident);
        }
        self.keep(operation);
        Judged::Answered(Box::new(self.showing(draft)))
    }

    fn finished(
        &self,
        ask: &Transition,
        nonce: Nonce,
        found: Objection,
        result: StoredResult,
    ) -> Operation {
        Operation {
            id: ask.intent.operation.clone(),
            digest: ask.intent.digest.clone(),
            verdict: found.verdict,
            rule: found.rule,
            result,
            time_ms: self.when.wall_ms,
            mark: nonce.mark(),
            round: ask
                .reservation
                .as_ref()
                .map(|reservation| reservation.round()),
            // An applied move's state is the record's own; only a refusal has to remember what it met.
            state: (found.verdict != Verdict::Applied)
                .then(|| self.record.state.clone())
                .flatten(),
            expected: Vec::new(),
            raised: Raised::default(),
            fields: ask.intent.field_hashes(nonce.mark()),
            expiry: Some(self.when.operation_expiry()),
            deliveries: Deliveries::default(),
            resolved: None,
        }
    }

    /// Stores a finished operation. What a person said of it while it was open stays with it, and so does what was reported.
    pub(super) fn keep(&mut self, mut operation: Operation) {
        if let Some(open) = self.close(&operation.id) {
            let reported = open.claim.raised.without(Raised::INTERRUPTED);
            operation.raised = operation.raised.without(Raised::INTERRUPTED).with(reported);
            operation.resolved = operation.resolved.or(open.claim.resolved);
        }
        self.bytes += operation.size();
        self.record.operations.push(operation);
        self.changed = true;
    }
}

impl Record {
    /// Every name must match. A value known to be replaced outweighs one that is not known yet.
    fn objects_to_identity(&self, shown: &Identity) -> Option<Objection> {
        let mut unknown = false;
        for (name, value) in shown {
            match self.identity.get(name) {
                Some(known) if known.current == *value => {}
                Some(known) if known.replaced.contains(&ValueHash::of(name, value)) => {
                    return Some(Objection {
                        verdict: Verdict::OtherRound,
                        rule: Rule::Replaced,
                    });
                }
                Some(_) | None => unknown = true,
            }
        }
        unknown.then_some(Objection {
            verdict: Verdict::TooEarly,
            rule: Rule::NotYetKnown,
        })
    }

    /// Whether new identity names would be more than are remembered.
    pub(super) fn too_many_names(&self, sets: &Identity) -> bool {
        let new = sets
            .keys()
            .filter(|name| !self.identity.contains_key(*name))
            .count();
        self.identity.len() + new > IDENTITY_NAMES_REMEMBERED_MAX
    }

    /// Begins rounds of identity values; what they replace is remembered as replaced.
    pub(super) fn set_identity(&mut self, sets: &Identity) {
        for (name, value) in sets {
            match self.identity.get_mut(name) {
                Some(known) if known.current == *value => {}
                Some(known) => {
                    let before = ValueHash::of(name, &known.current);
                    let begun = ValueHash::of(name, value);
                    known
                        .replaced
                        .retain(|hash| *hash != begun && *hash != before);
                    if known.replaced.len() >= REPLACED_VALUES_MAX {
                        known.replaced.remove(0);
                    }
                    known.replaced.push(before);
                    known.current = value.clone();
                }
                None => {
                    let known = NamedValue {
                        current: value.clone(),
                        replaced: Vec::new(),
                    };
                    self.identity.insert(name.clone(), known);
                }
            }
        }
    }
}
