//! Transition: key → digest → replay → fence → identity → state → result. The first layer that objects decides.

use std::time::Duration;

use super::alert::Found;
use super::repeat::verdict_draft;
use super::{Draft, Fold, Judged};
use crate::domain::decision::{Layer, Rule, Verdict};
use crate::domain::ids::{Nonce, OperationId};
use crate::domain::outcome::StoredResult;
use crate::domain::record::{
    Deliveries, IDENTITY_NAMES_REMEMBERED_MAX, NamedValue, Operation, REPLACED_VALUES_MAX, Raised,
    Record, ValueHash,
};
use crate::domain::request::{Identity, Transition};

/// When to ask again for what is not allowed yet.
pub(super) const EARLY_RETRY: Duration = Duration::from_secs(1);

/// What the layers after replay found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Objection {
    pub(super) verdict: Verdict,
    pub(super) rule: Rule,
}

impl Fold<'_> {
    pub(super) fn transition(&mut self, ask: &Transition, nonce: Nonce) -> Judged {
        if let Some(done) = self.find(&ask.intent.operation) {
            return self.repeat(ask, nonce, done);
        }
        if let Some(made_ms) = ask.intent.made_ms
            && self.when.too_old(made_ms)
        {
            return self.too_old(ask);
        }
        if let Some(refused) = self.stopped_by_fence(ask) {
            return Judged::Answered(Box::new(self.showing(refused)));
        }
        if let Some(objection) = self.record.is_forgotten_for(&ask.intent) {
            return self.turned_away(ask, nonce, objection, Layer::State);
        }
        if let Some(objection) = self.record.objects_to_identity(&ask.intent.identity) {
            return self.turned_away(ask, nonce, objection, Layer::Identity);
        }
        let Some(movement) = &ask.intent.movement else {
            return self.applied(ask, nonce, Rule::RanOnce);
        };
        if let Some(objection) = self.record.objects_to_move(&ask.intent, movement) {
            return self.turned_away(ask, nonce, objection, Layer::State);
        }
        if let Some(limit) = self.record.over_limit(movement) {
            return limit;
        }
        self.record.make(movement);
        self.applied(ask, nonce, Rule::Moved)
    }

    fn stopped_by_fence(&mut self, ask: &Transition) -> Option<Draft> {
        match &ask.reservation {
            Some(reservation) if self.holds(reservation) => None,
            Some(reservation) => {
                let draft = self.round_over(reservation);
                let (rule, text) = (Rule::Over, "a result came from a reservation that is over");
                let incident = self.evidence(ask, Found::new(Verdict::Fenced, rule, text), None);
                Some(draft.incident(incident))
            }
            None => self.live_round().map(|(round, _)| self.busy(round)),
        }
    }

    fn applied(&mut self, ask: &Transition, nonce: Nonce, rule: Rule) -> Judged {
        let result = ask.result.clone().unwrap_or_default();
        let objection = Objection {
            verdict: Verdict::Applied,
            rule,
        };
        let operation = self.finished(ask, nonce, objection, result.clone());
        let draft = verdict_draft(&operation)
            .result(result)
            .same_content_as(self.twin_of(ask, rule));
        self.keep(operation);
        Judged::Answered(Box::new(self.showing(draft)))
    }

    /// Another operation that did the same with the same content, as far as the record shows at once.
    pub(super) fn twin_of(&self, ask: &Transition, rule: Rule) -> Option<OperationId> {
        let intent = &ask.intent;
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
    fn turned_away(
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
        if layer == Layer::State || evidence.is_some() {
            operation.raised = Raised::REFUSAL;
            let found = Found::new(verdict, rule, draft.explanation());
            let mut incident = self.found(ask, found, None);
            incident.evidence = evidence
                .map(|result| self.evidence_of(ask, result))
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
        }
    }

    fn keep(&mut self, operation: Operation) {
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
