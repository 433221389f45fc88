//! Completing a claim: the effect's result and the move that was judged at the grant are stored in one commit.

use super::alert::{About, Found};
use super::interrupted::Condition;
use super::law::Terms;
use super::repeat::verdict_draft;
use super::{Certainty, Draft, Fold, Judged, Known, ReservationChange};
use crate::domain::claim::{Carried, OpenOperation, RETURNED_OPERATIONS_MAX, Seat};
use crate::domain::decision::{IncidentId, Layer, Rule, Verdict};
use crate::domain::digest::{Beside, ContentDigest};
use crate::domain::ids::{Nonce, OperationId};
use crate::domain::outcome::StoredResult;
use crate::domain::record::{Deliveries, Operation, Raised, RoundEnd};
use crate::domain::request::{
    Afterwards, Complete, Identity, Intent, Interrupted, Left, Transition,
};

impl Fold<'_> {
    /// A Transition that names only the round: its claim says which operation is meant.
    pub(super) fn complete(&mut self, ask: &Complete, nonce: Nonce) -> Judged {
        let round = ask.reservation.round();
        // Ours: the commit went through and only its reply was lost, and the round has claimed another operation since.
        let own = self.written_by(nonce, round).map(Carried::One);
        let operation = match own.unwrap_or_else(|| self.record.carried_by(round)) {
            Carried::One(operation) => operation,
            Carried::Nothing if self.holds(&ask.reservation) => {
                return Judged::Unfit {
                    field: "intent",
                    reason: "is required: the reservation carries no claim, so the result belongs to no operation",
                };
            }
            Carried::Several if self.holds(&ask.reservation) => {
                return Judged::Unfit {
                    field: "intent",
                    reason: "is required: the reservation has carried more than one claim, and only the operation tells which is meant",
                };
            }
            Carried::Nothing | Carried::Several => return self.late(ask, None),
        };
        let known = self.known(&operation);
        let intent = match &known {
            Known::Open(open) => open.intent.clone(),
            Known::Finished(done) => Intent::bare(operation.clone(), done.digest.clone()),
            Known::Unknown => return self.late(ask, Some(&operation)),
        };
        // It says what was said then, so there is no content to be held against it.
        let message = Transition {
            resource: self.resource.clone(),
            intent,
            reservation: Some(ask.reservation.clone()),
            result: ask.result.clone(),
            afterwards: ask.afterwards,
            outcome: ask.outcome.clone(),
            sender: ask.sender.clone(),
            purpose: ask.purpose,
        };
        match known {
            Known::Finished(done) => {
                // As long as the round lives it may have claimed another operation since, at another sidecar.
                let may_have = self.holds(&ask.reservation);
                let mut judged = self.repeat(&message, nonce, *done);
                if let (true, Judged::Answered(draft)) = (may_have, &mut judged) {
                    draft.certainty = Certainty::Confirm;
                }
                judged
            }
            Known::Open(open) => match self.transition_of_open(&message, nonce, &open) {
                Some(judged) => judged,
                // Given back, though the round may be live: it has to be asked for anew.
                None if self.holds(&ask.reservation) => Judged::Unfit {
                    field: "intent",
                    reason: "is required: what the reservation had claimed was given back, and is judged as if it were new",
                },
                None => {
                    let event = open.judged.as_ref().map(|judged| judged.event.clone());
                    self.late(ask, Some(&operation)).of_event(event)
                }
            },
            Known::Unknown => self.late(ask, Some(&operation)),
        }
    }

    /// The operation that this very request finished under a round.
    fn written_by(&self, nonce: Nonce, round: Nonce) -> Option<OperationId> {
        let inline = self.record.operations.iter();
        let apart = self.standing.all_kept_apart();
        let mut all = inline.chain(self.moved_out.values()).chain(apart);
        all.find(|done| done.mark == nonce.mark() && done.round == Some(round))
            .map(|done| done.id.clone())
    }

    /// Nothing is known any more of what the round claimed.
    fn late(&mut self, ask: &Complete, operation: Option<&OperationId>) -> Judged {
        if self.holds(&ask.reservation) {
            return self.forgotten(ask, operation);
        }
        let about = About {
            operation,
            first: None,
            digest: None,
            round: Some(ask.reservation.round()),
            sender: ask.sender.as_ref(),
        };
        self.fenced_off(&ask.reservation, ask.result.as_ref(), &about)
    }

    /// The round is live, and what it had claimed was completed so long ago that it is no longer known. The round is not over
    /// for that, and nothing runs again.
    fn forgotten(&mut self, ask: &Complete, operation: Option<&OperationId>) -> Judged {
        let text = "the reservation completed what it had claimed longer ago than results are kept; nothing is run again";
        let (verdict, rule) = (Verdict::Expired, Rule::TooOld);
        let about = About {
            operation,
            first: None,
            digest: None,
            round: Some(ask.reservation.round()),
            sender: ask.sender.as_ref(),
        };
        let found = Found::new(verdict, rule, text);
        let incident = self.evidence(&about, ask.result.as_ref(), found);
        let draft = Draft::new(verdict, Layer::Key, rule, text).incident(incident);
        Judged::Answered(Box::new(self.showing(draft)))
    }

    /// Stores the result of a claim that is live, and makes its move.
    pub(super) fn completed(
        &mut self,
        ask: &Transition,
        nonce: Nonce,
        open: &OpenOperation,
    ) -> Judged {
        if self.reservation != ReservationChange::Keep {
            return Judged::Later;
        }
        if let Err(unlawful) = self.follow() {
            return Judged::Unlawful(unlawful);
        }
        // As it was judged at the grant, in the names of the version in force.
        let open = &self
            .record
            .open(&open.intent.operation)
            .unwrap_or(open)
            .clone();
        let terms = match self.terms_of_completing(open, ask.outcome.as_ref()) {
            Ok(terms) => terms,
            Err(unlawful) => return Judged::Unlawful(unlawful),
        };
        let rule = self.take_effect(&terms);
        let result = ask.result.clone().unwrap_or_default();
        let operation = Operation {
            round: Some(open.claim.round),
            raised: open.claim.raised,
            outcome: self.outcome_of(open, &terms),
            ..self.settled(open, nonce, (Verdict::Applied, rule), result.clone())
        };
        // Whether another operation did the same was looked for at the grant, which brought the content.
        let draft = verdict_draft(&operation).result(result);
        self.keep(operation);
        let ends = match (ask.afterwards, open.claim.seat) {
            (Some(Afterwards::Ends), _) | (None, Seat::Own) => true,
            (Some(Afterwards::Stays), _) | (None, Seat::Ridden) => false,
        };
        let draft = if ends {
            self.end_round(draft, nonce, Left::Unsaid)
        } else {
            draft
        };
        Judged::Answered(Box::new(self.showing(draft)))
    }

    /// Ends the live round, whose key is not written otherwise in this commit. An operation that it leaves open is
    /// interrupted, unless nothing was done for it.
    pub(super) fn end_round(&mut self, draft: Draft, nonce: Nonce, left: Left) -> Draft {
        let Some(round) = self.record.round.as_mut() else {
            return draft;
        };
        round.over = Some(RoundEnd::Released(nonce.mark()));
        let (ended, lease) = (round.nonce, round.lease);
        self.live = None;
        self.reservation = ReservationChange::End;
        self.changed = true;
        let draft = draft.freeing(ended, lease);
        let said = match left {
            Left::NothingDone => {
                let open = self.open_under(ended);
                if let Some(id) = open.map(|open| open.intent.operation.clone()) {
                    self.give_back(&id);
                }
                return draft;
            }
            Left::Unsaid => StoredResult::default(),
            Left::Ended(result) => *result,
        };
        match self.left_behind(ended, said) {
            Some(incident) => draft.incident(Some(incident)),
            None => draft,
        }
    }

    /// The incident of the operation that a round which is over has left interrupted, if a person decides about it. `said`: how its
    /// effect ended.
    pub(super) fn left_behind(&mut self, round: Nonce, said: StoredResult) -> Option<IncidentId> {
        let open = self.open_under(round)?.clone();
        match self.condition(&open) {
            Condition::Asks => Some(self.report_with(&open, said)),
            Condition::Running | Condition::Reruns | Condition::Returned => None,
        }
    }

    /// An open operation may start again.
    pub(super) fn give_back(&mut self, id: &OperationId) {
        // The last one given back is the last to be forgotten: who asks again must find it.
        if let Some(mut open) = self.close(id) {
            open.claim.returned = true;
            self.record.open.push(open);
        }
        self.record.forget_returned(RETURNED_OPERATIONS_MAX);
    }

    /// Whether one more that is given back would make the record forget one of this very commit, whose own request could not
    /// find it if its reply were lost.
    pub(super) fn gives_back_enough(&self) -> bool {
        let returned = self.record.open.iter().filter(|open| open.claim.returned);
        let now = returned.filter(|open| !self.standing.has_returned(open));
        now.count() >= RETURNED_OPERATIONS_MAX
    }

    /// An operation is no longer open.
    pub(super) fn close(&mut self, id: &OperationId) -> Option<OpenOperation> {
        let mut open = self.record.open.iter();
        let at = open.position(|open| open.intent.operation == *id)?;
        self.changed = true;
        Some(self.record.open.remove(at))
    }

    /// An open operation as it is stored when it is finished.
    pub(super) fn settled(
        &self,
        open: &OpenOperation,
        nonce: Nonce,
        (verdict, rule): (Verdict, Rule),
        result: StoredResult,
    ) -> Operation {
        let judged = open.judged.as_ref();
        Operation {
            id: open.intent.operation.clone(),
            digest: open.intent.digest.clone(),
            verdict,
            rule,
            result,
            time_ms: self.when.wall_ms,
            mark: nonce.mark(),
            round: None,
            state: None,
            expected: Vec::new(),
            raised: Raised::default(),
            resolved: None,
            fields: open.fields.clone().salted_by(open.claim.nonce.mark()),
            expiry: Some(self.when.operation_expiry()),
            deliveries: Deliveries::default(),
            event: judged.map(|judged| judged.event.clone()),
            machine: judged.map(|judged| judged.version),
            keeps_retrying: judged.is_some_and(|judged| judged.keeps_retrying),
            outcome: None,
        }
    }

    /// Makes the move that the law has allowed.
    pub(super) fn take_effect(&mut self, terms: &Terms<'_>) -> Rule {
        if !terms.moves {
            return Rule::RanOnce;
        }
        self.record.make(terms);
        Rule::Moved
    }
}

impl Intent {
    /// All that is left of the intent of a finished operation.
    fn bare(operation: OperationId, digest: ContentDigest) -> Self {
        Self {
            operation,
            event: None,
            identity: Identity::new(),
            digest,
            beside: Beside::default(),
            from: Vec::new(),
            movement: None,
            made_ms: None,
            interrupted: Interrupted::default(),
        }
    }
}
