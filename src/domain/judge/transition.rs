//! Transition: key → digest → replay → fence → identity → state → result. The first layer that objects decides.

use std::time::Duration;

use super::alert::{About, Found};
use super::interrupted::Condition;
use super::law::{Terms, read_under};
use super::repeat::verdict_draft;
use super::{Draft, Fold, Judged, Known, Law, ReservationChange};
use crate::domain::claim::OpenOperation;
use crate::domain::decision::{Layer, Rule, Verdict};
use crate::domain::digest::{DigestScheme, FieldHashes};
use crate::domain::ids::{IdentityName, Nonce, OperationId};
use crate::domain::outcome::StoredResult;
use crate::domain::record::{
    Deliveries, IDENTITY_NAMES_REMEMBERED_MAX, NamedValue, Operation, REPLACED_VALUES_MAX, Raised,
    Record, ValueHash,
};
use crate::domain::request::{Afterwards, Intent, Left, Purpose, Transition};

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

/// Why an intent may not take effect now.
#[derive(Debug)]
pub(super) enum Obstacle {
    /// The message's round or the state stands against it.
    Objection(Objection),
    /// It would make the record remember more than it may.
    Limit(Judged),
}

impl Fold<'_> {
    pub(super) fn transition(&mut self, ask: &Transition, nonce: Nonce) -> Judged {
        let several = ask.reservation.as_ref().filter(|id| id.is_of_several());
        if several.is_some() && ask.afterwards == Some(Afterwards::Ends) {
            return Judged::Unfit {
                field: "release",
                reason: "must be absent or false: a reservation of several resources ends for all of them, by Release",
            };
        }
        match self.known(&ask.intent.operation) {
            Known::Finished(done) => {
                return match self.comparable(ask, &done.digest, done.judged_as()) {
                    Ok(ask) => self.repeat(&ask, nonce, *done),
                    Err(unlawful) => Judged::Unlawful(unlawful),
                };
            }
            Known::Open(open) => {
                let read = match self.comparable(ask, &open.intent.digest, open.judged_as()) {
                    Ok(read) => read,
                    Err(unlawful) => return Judged::Unlawful(unlawful),
                };
                if let Some(judged) = self.transition_of_open(&read, nonce, &open) {
                    return judged;
                }
            }
            Known::Unknown => {}
        }
        if ask.outcome.is_some() {
            return Judged::Unfit {
                field: "outcome_event",
                reason: "must be absent: no claim of the operation is completed, and what has happened is its event",
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
        if let Some(refused) = self.stopped_by_fence(ask, Some(&terms)) {
            return refused;
        }
        if let Some(waits) = self.waits(&ask.intent.operation, terms.changes()) {
            return Judged::Answered(Box::new(waits));
        }
        match self.allows(&terms) {
            Ok(()) => self.applied(ask, nonce, &terms),
            Err(Obstacle::Objection(objection)) => self.turned_away(ask, nonce, &terms, objection),
            Err(Obstacle::Limit(limit)) => limit,
        }
    }

    /// The law: the layers identity and state. An open operation is judged by it when its claim is granted, and what it then
    /// said is kept with the claim, and takes effect.
    pub(super) fn allows(&self, terms: &Terms<'_>) -> Result<(), Obstacle> {
        if let Some(objection) = self.record.is_forgotten_for(terms) {
            return Err(Obstacle::Objection(objection));
        }
        if let Some(objection) = self.objects_to_identity(terms) {
            return Err(Obstacle::Objection(objection));
        }
        if !terms.moves {
            return Ok(());
        }
        if let Some(objection) = self.record.objects_to_state(terms) {
            return Err(Obstacle::Objection(objection));
        }
        match self.record.over_limit(terms) {
            Some(limit) => Err(Obstacle::Limit(limit)),
            None => Ok(()),
        }
    }

    /// A message whose operation is claimed, or was. `None`: it was given back, and is judged as if it were new.
    pub(super) fn transition_of_open(
        &mut self,
        ask: &Transition,
        nonce: Nonce,
        open: &OpenOperation,
    ) -> Option<Judged> {
        let judged = self.judged_of_open(ask, nonce, open)?;
        let event = open.judged.as_ref().map(|judged| judged.event.clone());
        Some(judged.of_event(event))
    }

    fn judged_of_open(
        &mut self,
        ask: &Transition,
        nonce: Nonce,
        open: &OpenOperation,
    ) -> Option<Judged> {
        if let Some(conflict) = self.differs_from_open(ask, open) {
            return Some(conflict);
        }
        let condition = self.condition(open);
        if let Some(reservation) = &ask.reservation {
            if !self.holds(reservation) {
                return self.stopped_by_fence(ask, None);
            }
            if condition == Condition::Running {
                return Some(self.completed(ask, nonce, open));
            }
        }
        let draft = match condition {
            Condition::Running => self.in_progress(open),
            Condition::Reruns | Condition::Asks => self.found_dead(ask, open, condition),
            Condition::Returned => return None,
        };
        Some(self.delivered_again(open, draft))
    }

    fn stopped_by_fence(&mut self, ask: &Transition, terms: Option<&Terms<'_>>) -> Option<Judged> {
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
            None if terms.is_some_and(Terms::passes_holders) => None,
            None => {
                // Whoever goes on waiting is not refused: nothing is kept of it yet, and if the wait is cut short it may come again.
                let told = !(self.caller_waits && ask.purpose == Purpose::Commit);
                let instead = terms.and_then(Terms::advice_if_held).filter(|_| told);
                let Some((round, _)) = self.live_round() else {
                    return self.move_comes_later(instead);
                };
                let mut busy = self.busy(round).advising(instead);
                if instead.is_some() {
                    // It is not told to come again, so its result would be lost.
                    let text = "a result came while another reservation held the resource, and its sender was refused";
                    let found = Found::new(Verdict::Busy, Rule::Held, text);
                    let about = About::message(ask, None);
                    busy = busy.incident(self.evidence(&about, ask.result.as_ref(), found));
                }
                Some(Judged::Answered(Box::new(self.showing(busy))))
            }
        }
    }

    fn applied(&mut self, ask: &Transition, nonce: Nonce, terms: &Terms<'_>) -> Judged {
        let result = ask.result.clone().unwrap_or_default();
        self.leave_by_move();
        let rule = self.take_effect(terms);
        let found = Objection::new(Verdict::Applied, rule, Layer::Result);
        let operation = self.finished(ask, nonce, terms, found, result.clone());
        let mut draft = verdict_draft(&operation)
            .result(result)
            .same_content_as(self.twin_of(&ask.intent, &operation));
        self.keep(operation);
        if ask.afterwards == Some(Afterwards::Ends) && ask.reservation.is_some() {
            draft = self.end_round(draft, nonce, Left::Unsaid);
        }
        Judged::Answered(Box::new(self.showing(draft)))
    }

    /// Another operation that did the same with the same content, as far as the record shows at once.
    pub(super) fn twin_of(&self, intent: &Intent, done: &Operation) -> Option<OperationId> {
        if !intent.beside.says_something() || done.digest.scheme() == DigestScheme::None {
            return None;
        }
        // Those before it, for one whose reply was lost is in the record itself.
        let inline = self.record.operations.iter();
        let before = inline.take_while(|other| other.id != intent.operation);
        let twin = before.filter(|other| {
            other.verdict == Verdict::Applied
                && other.rule == done.rule
                // What turned out otherwise did not do what it was to do.
                && other.outcome.is_none()
                // Under one version an event's digests are made under one rule.
                && (&other.event, other.machine) == (&done.event, done.machine)
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
        // What alerts nobody is settled quietly, unless the message says that its effect ran, or an earlier attempt at it died:
        // its effect may have run.
        let died = self.record.open(&operation.id);
        let died = died.is_some_and(|open| !open.claim.returned);
        if terms.alerts(verdict) || evidence.is_some() || died {
            operation.raised = Raised::REFUSAL;
            let found = Found::new(verdict, rule, draft.explanation());
            let about = About::message(ask, None);
            let mut incident = self.found(&about, found);
            incident.evidence = evidence
                .map(|result| self.evidence_of(&about, result))
                .into_iter()
                .collect();
            draft = draft.incident(Some(incident.id.clone()));
            // This is stored once in a retention, so it needs no look at what is kept.
            self.add_incident(incident);
        }
        self.keep(operation);
        Judged::Answered(Box::new(self.showing(draft)))
    }

    pub(super) fn finished(
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
            outcome: None,
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
        // How long it is kept is for the law to say.
        self.lawful = true;
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
        for name in &terms.clears {
            if let Some(known) = self.identity.get_mut(*name) {
                known.end(name);
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
