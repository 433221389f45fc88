//! Transition: key → digest → replay → fence → identity → state → result. The first layer that objects decides.

use std::time::Duration;

use super::alert::Found;
use super::law::{Terms, read_under};
use super::repeat::verdict_draft;
use super::{Draft, Fold, Judged, Law};
use crate::domain::decision::{Layer, Rule, Verdict};
use crate::domain::digest::{DigestScheme, FieldHashes};
use crate::domain::ids::{IdentityName, Nonce, OperationId};
use crate::domain::outcome::StoredResult;
use crate::domain::record::{
    Deliveries, IDENTITY_NAMES_REMEMBERED_MAX, NamedValue, Operation, REPLACED_VALUES_MAX, Raised,
    Record, ValueHash,
};
use crate::domain::request::Transition;

/// When to ask again for what is not allowed yet.
pub(super) const EARLY_RETRY: Duration = Duration::from_secs(1);

/// What the layers after replay found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Objection {
    pub(super) verdict: Verdict,
    pub(super) rule: Rule,
    pub(super) layer: Layer,
}

impl Objection {
    pub(super) fn new(verdict: Verdict, rule: Rule, layer: Layer) -> Self {
        Self {
            verdict,
            rule,
            layer,
        }
    }
}

impl Fold<'_> {
    pub(super) fn transition(&mut self, ask: &Transition, nonce: Nonce) -> Judged {
        if let Some(done) = self.find(&ask.intent.operation) {
            return match self.comparable(ask, &done) {
                Ok(ask) => self.repeat(&ask, nonce, done),
                Err(unlawful) => Judged::Unlawful(unlawful),
            };
        }
        if let Some(made_ms) = ask.intent.made_ms
            && self.too_old_now(made_ms)
        {
            return self.too_old(ask);
        }
        let terms = match self.terms(&ask.intent) {
            Ok(terms) => terms,
            Err(unlawful) => return Judged::Unlawful(unlawful),
        };
        let read = match read_under(ask, terms.digest_rule()) {
            Ok(read) => read,
            Err(unlawful) => return Judged::Unlawful(unlawful),
        };
        let ask = &*read;
        if let Some(refused) = self.stopped_by_fence(ask, &terms) {
            return Judged::Answered(Box::new(self.showing(refused)));
        }
        if let Some(objection) = self.record.is_forgotten_for(&terms) {
            return self.turned_away(ask, nonce, &terms, objection);
        }
        if let Some(objection) = self.objects_to_identity(&terms) {
            return self.turned_away(ask, nonce, &terms, objection);
        }
        if !terms.moves {
            return self.applied(ask, nonce, &terms, Rule::RanOnce);
        }
        if let Some(objection) = self.record.objects_to_state(&terms) {
            return self.turned_away(ask, nonce, &terms, objection);
        }
        if let Some(limit) = self.record.over_limit(&terms) {
            return limit;
        }
        self.record.make(&terms);
        self.applied(ask, nonce, &terms, Rule::Moved)
    }

    fn stopped_by_fence(&mut self, ask: &Transition, terms: &Terms<'_>) -> Option<Draft> {
        match &ask.reservation {
            Some(reservation) if self.holds(reservation) => None,
            Some(reservation) => {
                let draft = self.round_over(reservation);
                let (rule, text) = (Rule::Over, "a result came from a reservation that is over");
                let incident = self.evidence(ask, Found::new(Verdict::Fenced, rule, text), None);
                Some(draft.incident(incident))
            }
            None if terms.passes_holders() => None,
            None => self
                .live_round()
                .map(|(round, _)| self.busy(round).advising(terms.advice_if_held())),
        }
    }

    fn applied(&mut self, ask: &Transition, nonce: Nonce, terms: &Terms<'_>, rule: Rule) -> Judged {
        let result = ask.result.clone().unwrap_or_default();
        let found = Objection::new(Verdict::Applied, rule, Layer::Result);
        let operation = self.finished(ask, nonce, terms, found, result.clone());
        let draft = verdict_draft(&operation)
            .result(result)
            .same_content_as(self.twin_of(ask, &operation));
        self.keep(operation);
        Judged::Answered(Box::new(self.showing(draft)))
    }

    /// Another operation that did the same with the same content, as far as the record shows at once.
    pub(super) fn twin_of(&self, ask: &Transition, done: &Operation) -> Option<OperationId> {
        let intent = &ask.intent;
        if !intent.beside.says_something() || done.digest.scheme() == DigestScheme::None {
            return None;
        }
        // Those before it, for one whose reply was lost is in the record itself.
        let inline = self.record.operations.iter();
        let before = inline.take_while(|other| other.id != intent.operation);
        let twin = before.filter(|other| {
            other.verdict == Verdict::Applied
                && other.rule == done.rule
                // Under one version an event's digests are made under one rule.
                && (&other.event, other.machine) == (&done.event, done.machine)
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
        terms: &Terms<'_>,
        objection: Objection,
    ) -> Judged {
        let Objection {
            verdict,
            rule,
            layer,
        } = objection;
        let expected = if layer == Layer::State {
            terms.expected()
        } else {
            Vec::new()
        };
        if verdict == Verdict::TooEarly {
            let text = super::states::early_text(rule, self.record.state.as_ref(), terms);
            let expected = if terms.event.is_some() {
                expected
            } else {
                ask.intent.from.clone()
            };
            let draft = Draft::new(verdict, layer, rule, text)
                .retry_after(EARLY_RETRY)
                .expected(&expected);
            return Judged::Answered(Box::new(self.showing(draft)));
        }
        let mut operation = self.finished(ask, nonce, terms, objection, StoredResult::default());
        operation.expected = expected;
        let mut draft = verdict_draft(&operation).expected(&operation.expected);
        let evidence = ask.result.clone().filter(|result| !result.is_empty());
        // What alerts nobody is settled quietly, unless the message says that its effect ran.
        if terms.alerts(verdict) || evidence.is_some() {
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
        terms: &Terms<'_>,
        found: Objection,
        result: StoredResult,
    ) -> Operation {
        let digest = terms.digest(&ask.intent);
        let fields = if digest.scheme() == DigestScheme::None {
            FieldHashes::default()
        } else {
            ask.intent.field_hashes(nonce.mark())
        };
        Operation {
            id: ask.intent.operation.clone(),
            digest,
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
            fields,
            expiry: Some(self.when.operation_expiry()),
            deliveries: Deliveries::default(),
            event: terms.event_name().cloned(),
            machine: terms.event.and(self.law.version()),
            keeps_retrying: terms.keeps_retrying(),
        }
    }

    fn keep(&mut self, operation: Operation) {
        self.bytes += operation.size();
        self.record.operations.push(operation);
        self.changed = true;
    }
}

impl Fold<'_> {
    /// Every name must match. A value known to be replaced outweighs one that is not known yet.
    fn objects_to_identity(&self, terms: &Terms<'_>) -> Option<Objection> {
        let mut unknown = None;
        for (name, value) in &terms.compare {
            match self.record.identity.get(*name) {
                Some(known) if known.current.as_ref() == Some(value) => {}
                Some(known) if known.replaced.contains(&ValueHash::of(name, value)) => {
                    let (verdict, rule) = (Verdict::OtherRound, Rule::Replaced);
                    return Some(Objection::new(verdict, rule, Layer::Identity));
                }
                Some(_) | None => {
                    let found = match self.law {
                        Law::Machine(law) => self.record.unknown_value(law, name),
                        Law::NoFile | Law::Unreadable(_) => {
                            let (verdict, rule) = (Verdict::TooEarly, Rule::NotYetKnown);
                            Objection::new(verdict, rule, Layer::Identity)
                        }
                    };
                    // Of several, the one that will never come decides.
                    if unknown.is_none() || found.verdict == Verdict::Rejected {
                        unknown = Some(found);
                    }
                }
            }
        }
        unknown
    }
}

impl Record {
    /// Whether new identity names would be more than are remembered.
    pub(super) fn too_many_names(&self, terms: &Terms<'_>) -> bool {
        let new = terms
            .sets
            .iter()
            .filter(|(name, _)| !self.identity.contains_key(*name))
            .count();
        self.identity.len() + new > IDENTITY_NAMES_REMEMBERED_MAX
    }

    /// Begins and ends rounds of identity values; what they replace is remembered as replaced.
    pub(super) fn change_identity(&mut self, terms: &Terms<'_>) {
        for (name, value) in &terms.sets {
            let known = self.identity.entry((*name).clone()).or_default();
            if known.current.as_ref() != Some(value) {
                known.end(name);
                let begun = ValueHash::of(name, value);
                known.replaced.retain(|hash| *hash != begun);
                known.current = Some((*value).clone());
            }
        }
        for name in terms.clears {
            if let Some(known) = self.identity.get_mut(&name.value) {
                known.end(&name.value);
            }
        }
    }
}

impl NamedValue {
    /// Ends the round of the value in force.
    fn end(&mut self, name: &IdentityName) {
        let Some(current) = self.current.take() else {
            return;
        };
        let before = ValueHash::of(name, &current);
        self.replaced.retain(|hash| *hash != before);
        if self.replaced.len() >= REPLACED_VALUES_MAX {
            self.replaced.remove(0);
        }
        self.replaced.push(before);
    }
}
