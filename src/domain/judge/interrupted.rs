//! Open operations, as others find them: running, died, or given back; and what has to wait for them.
//!
//! Nothing notices by itself that a claim has died. The next request that finds it writes the incident, in its own commit.

use std::time::Duration;

use super::alert::{About, Found};
use super::law::Terms;
use super::repeat::conflict_text;
use super::reserve::busy_retry;
use super::{Draft, Fold, Judged};
use crate::domain::claim::{CLAIM_ATTEMPTS_MAX, OpenOperation};
use crate::domain::decision::{Advice, IncidentId, Layer, Rule, Verdict};
use crate::domain::digest::DigestScheme;
use crate::domain::ids::{Nonce, OperationId, ReservationId};
use crate::domain::incident::Incident;
use crate::domain::outcome::StoredResult;
use crate::domain::record::{Deliveries, Raised};
use crate::domain::request::{Interrupted, Transition};

/// When to ask again for what a person decides.
const INTERRUPTED_RETRY: Duration = Duration::from_secs(60);

/// How an open operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Its claim is live.
    Running,
    /// Its claim died, and it may be claimed again.
    Reruns,
    /// Its claim died, and a person decides.
    Asks,
    /// It was given back with nothing done, or a person said so: as if it had never been seen.
    Returned,
}

impl Fold<'_> {
    /// How an open operation stands now.
    pub(super) fn condition(&self, open: &OpenOperation) -> Condition {
        let claim = &open.claim;
        if claim.returned {
            return Condition::Returned;
        }
        let live = self.live_round();
        if live.is_some_and(|(round, _)| round.nonce == claim.round) {
            return Condition::Running;
        }
        if self.is_of_an_older_timeline(open) {
            return Condition::Asks;
        }
        match open.intent.interrupted {
            Interrupted::Rerun if claim.attempts < CLAIM_ATTEMPTS_MAX => Condition::Reruns,
            Interrupted::Rerun | Interrupted::Ask => Condition::Asks,
        }
    }

    /// Whether its claim was granted before the store was restored from a backup. It may have been completed, or have run again,
    /// in the part of the history that is lost; so whatever was declared for it, a person decides.
    fn is_of_an_older_timeline(&self, open: &OpenOperation) -> bool {
        open.claim.base != self.timeline.base
    }

    /// The open operation whose claim is held under a round.
    pub(super) fn open_under(&self, round: Nonce) -> Option<&OpenOperation> {
        let mut open = self.record.open.iter();
        open.find(|open| open.claim.round == round && !open.claim.returned)
    }

    /// Which attempt at its operation a round is for; 0: it carries no open claim.
    pub(super) fn attempt_under(&self, round: Nonce) -> u32 {
        self.open_under(round).map_or(0, |open| open.claim.attempts)
    }

    /// Counts another delivery of an open operation with its answer, which tells how many there were.
    pub(super) fn delivered_again(&mut self, open: &OpenOperation, draft: Draft) -> Judged {
        let id = &open.intent.operation;
        if self.caller_waits && draft.verdict() == Some(Verdict::InProgress) {
            return Judged::Answered(Box::new(draft));
        }
        *self.again.entry(id.clone()).or_default() += 1;
        let deliveries = self.open_deliveries(open);
        Judged::Answered(Box::new(draft.deliveries(deliveries).repeating(id)))
    }

    /// How often an open operation was delivered, as far as that is known here. It is stored once the operation is finished.
    pub(super) fn open_deliveries(&self, open: &OpenOperation) -> u32 {
        let id = &open.intent.operation;
        let here = self.again.get(id).copied().unwrap_or_default();
        let unsaved = self.standing.unsaved(id);
        Deliveries::default().and(unsaved).and(here).get()
    }

    /// Another request's claim of the operation is live.
    pub(super) fn in_progress(&self, open: &OpenOperation) -> Draft {
        let text = "the operation is running under another request's claim";
        let draft = Draft::new(Verdict::InProgress, Layer::Replay, Rule::Running, text)
            .first_time(open.claim.time_ms);
        let live = self.live_round();
        let after = live.map_or(INTERRUPTED_RETRY, |(round, _)| busy_retry(round.ttl));
        self.showing(draft.retry_after(after))
    }

    /// The claim died, the operation may run again, and the request brings no claim.
    pub(super) fn needs_claim(&self, open: &OpenOperation) -> Draft {
        let text = format!(
            "attempt {} at the operation ended without a result; it may run again, under a claim: reserve with its intent",
            open.claim.attempts
        );
        let (verdict, rule) = (Verdict::Interrupted, Rule::NeedsClaim);
        let draft = Draft::new(verdict, Layer::Replay, rule, text)
            .retry_after(INTERRUPTED_RETRY)
            .first_time(open.claim.time_ms);
        self.showing(draft)
    }

    /// The claim died and a person decides; with the incident if it was written already.
    pub(super) fn died(&self, open: &OpenOperation) -> Draft {
        let (rule, text) = if self.is_of_an_older_timeline(open) {
            (Rule::OlderTimeline, older_text(open))
        } else {
            (Rule::ClaimDied, died_text(open))
        };
        let draft = Draft::new(Verdict::Interrupted, Layer::Replay, rule, text);
        let written = open.claim.raised.has(Raised::INTERRUPTED);
        let draft = draft
            .retry_after(INTERRUPTED_RETRY)
            .first_time(open.claim.time_ms)
            .incident(written.then(|| self.death_of(open)));
        self.showing(draft)
    }

    /// The same, once the incident is written.
    pub(super) fn reported(&mut self, open: &OpenOperation) -> Draft {
        let incident = self.report(open);
        let draft = self.died(open).incident(Some(incident));
        // The record as it stands with this commit.
        self.showing(draft)
    }

    /// Writes the incident of a claim that died, once.
    pub(super) fn report(&mut self, open: &OpenOperation) -> IncidentId {
        self.report_with(open, StoredResult::default())
    }

    /// The same, with how the effect ended, if somebody said so.
    pub(super) fn report_with(&mut self, open: &OpenOperation, said: StoredResult) -> IncidentId {
        let id = self.death_of(open);
        if open.claim.raised.has(Raised::INTERRUPTED) {
            return id;
        }
        let text = if self.is_of_an_older_timeline(open) {
            older_text(open)
        } else {
            died_text(open)
        };
        let found = Found::new(Verdict::Interrupted, Rule::ClaimDied, &text);
        // Each attempt that died is evidence of its own that the effect may have run: it opens the incident again. For that it is
        // kept also where there is no room for what it said.
        let about = About::claim(open);
        let full = self.kept_evidence.get(&id);
        let full =
            full.is_some_and(|kept| !kept.has_room_for(&self.evidence_of(&about, said.clone())));
        let said = if full { StoredResult::default() } else { said };
        self.keep_evidence(&about, said, found);
        self.raise_on(&open.intent.operation, Raised::INTERRUPTED);
        id
    }

    /// One incident for all attempts that die: each is evidence in it.
    fn death_of(&self, open: &OpenOperation) -> IncidentId {
        let operation = Some(&open.intent.operation);
        Incident::id_of(
            self.resource,
            operation,
            Verdict::Interrupted,
            Rule::ClaimDied,
        )
    }

    /// A message of an operation whose claim died, by somebody who has no claim of it. It is told to ask again much later or to
    /// reserve, so a result that it brings would never be taken: that shows whoever decides that the effect ran.
    pub(super) fn found_dead(
        &mut self,
        ask: &Transition,
        open: &OpenOperation,
        condition: Condition,
    ) -> Draft {
        let (draft, rule) = if condition == Condition::Reruns {
            (self.needs_claim(open), Rule::NeedsClaim)
        } else {
            (self.reported(open), Rule::ClaimDied)
        };
        let found = Found::new(Verdict::Interrupted, rule, draft.explanation());
        let about = About::message(ask, Some(&open.intent.digest));
        match self.evidence(&about, ask.result.as_ref(), found) {
            Some(incident) => draft.incident(Some(incident)),
            None => draft,
        }
    }

    fn raise_on(&mut self, operation: &OperationId, raised: Raised) {
        let mut open = self.record.open.iter_mut();
        if let Some(open) = open.find(|open| open.intent.operation == *operation) {
            open.claim.raised = open.claim.raised.with(raised);
            self.changed = true;
        }
    }

    /// An open operation whose own move has to come before that of another one.
    pub(super) fn waits(&mut self, operation: &OperationId, changes: bool) -> Option<Draft> {
        if !changes {
            return None;
        }
        let others = self.record.open.iter();
        let others = others
            .filter(|open| Terms::of_claim(open).changes() && open.intent.operation != *operation);
        let first = others
            .map(|open| (self.condition(open), open))
            .find(|(condition, _)| match condition {
                Condition::Running | Condition::Asks => true,
                Condition::Reruns | Condition::Returned => false,
            })?;
        let (condition, open) = (first.0, first.1.clone());
        if condition == Condition::Running {
            return Some(self.claim_open());
        }
        let incident = self.report(&open);
        let text = "another operation of the resource was interrupted; until a person resolves it, nothing else moves";
        let (verdict, rule) = (Verdict::Interrupted, Rule::OtherInterrupted);
        let draft = Draft::new(verdict, Layer::Fence, rule, text)
            .retry_after(INTERRUPTED_RETRY)
            .incident(Some(incident));
        Some(self.showing(draft))
    }

    /// The claim of another operation is live, and comes first.
    pub(super) fn claim_open(&self) -> Draft {
        let text =
            "another operation is claimed under the live reservation; it has to be completed first";
        let draft = Draft::new(Verdict::Busy, Layer::Fence, Rule::ClaimOpen, text);
        let live = self.live_round();
        let after = live.map_or(INTERRUPTED_RETRY, |(round, _)| busy_retry(round.ttl));
        self.showing(draft.retry_after(after))
    }

    /// Whether a message says something else than the open operation of its key.
    pub(super) fn differs_from_open(
        &mut self,
        ask: &Transition,
        open: &OpenOperation,
    ) -> Option<Judged> {
        let first = &open.intent.digest;
        let judged = open.judged.as_ref();
        let rule = if first.scheme() != DigestScheme::None && !ask.intent.says_the_same(first) {
            Rule::OtherContent
        } else if self.is_another_event(
            ask,
            judged.map(|judged| &judged.event),
            judged.map(|judged| judged.version),
        ) {
            Rule::OtherEvent
        } else {
            return None;
        };
        let draft = self.conflict_with_open(ask, open, rule);
        Some(self.delivered_again(open, draft))
    }

    fn conflict_with_open(&mut self, ask: &Transition, open: &OpenOperation, rule: Rule) -> Draft {
        let first = &open.intent.digest;
        let text = conflict_text(rule, first, &ask.intent.digest);
        let verdict = Verdict::Conflict;
        let beside = &ask.intent.beside;
        let fields = if rule == Rule::OtherEvent {
            Vec::new()
        } else {
            beside.differing(first, &open.fields, open.claim.nonce.mark())
        };
        let found = Found {
            fields: &fields,
            ..Found::new(verdict, rule, &text)
        };
        let about = About::message(ask, Some(first));
        let incident = match self.evidence(&about, ask.result.as_ref(), found) {
            Some(evidence) => evidence,
            None => {
                let incident = self.found(&about, found);
                let id = incident.id.clone();
                let raised = Raised::conflict(rule);
                if !open.claim.raised.has(raised) {
                    self.incident(incident);
                    self.raise_on(&open.intent.operation, raised);
                }
                id
            }
        };
        let settled = open
            .judged
            .as_ref()
            .is_some_and(|judged| judged.keeps_retrying);
        Draft::new(verdict, Layer::Digest, rule, text)
            .advising(settled.then_some(Advice::Acknowledge))
            .incident(Some(incident))
            .differing(fields)
            .first_time(open.claim.time_ms)
    }

    /// A result came under a round that is over, and nothing tells whether it was taken before.
    pub(super) fn fenced_off(
        &mut self,
        reservation: &ReservationId,
        result: Option<&StoredResult>,
        about: &About<'_>,
    ) -> Judged {
        let draft = self.round_over(reservation);
        let text = "a result came from a reservation that is over";
        let (verdict, rule) = (Verdict::Fenced, Rule::Over);
        let incident = self.evidence(about, result, Found::new(verdict, rule, text));
        let draft = draft.incident(incident);
        Judged::Answered(Box::new(self.showing(draft)))
    }
}

fn died_text(open: &OpenOperation) -> String {
    format!(
        "attempt {} at the operation ended without a result; whether its effect ran is not known, and a person decides",
        open.claim.attempts
    )
}

fn older_text(open: &OpenOperation) -> String {
    format!(
        "attempt {} at the operation was granted before the store was restored from a backup; it may have been completed since \
         without the backup knowing of it, and a person decides",
        open.claim.attempts
    )
}
