//! Retention: what is too old to be judged, what is removed with a write that is made anyway, and what a sweep removes of a
//! resource that nobody touches.

use std::sync::Arc;

use super::alert::{About, Found};
use super::law::Terms;
use super::transition::Objection;
use super::{Draft, Fold, Judged, Law};
use crate::domain::decision::{Advice, Layer, Rule, Verdict};
use crate::domain::ids::OperationId;
use crate::domain::machine::OnRefusal;
use crate::domain::record::Record;
use crate::domain::request::Transition;
use crate::domain::retention::When;

/// Most operations in keys of their own that one sweep of a resource removes.
pub const SWEPT_OPERATIONS_MAX: usize = 32;

// Beside them it writes the record.
const _: () = assert!(SWEPT_OPERATIONS_MAX < super::FOLD_WRITES_MAX);

pub(super) const FORGOTTEN_TEXT: &str =
    "the resource was untouched for so long that it was forgotten, and is not begun anew";

/// What is told of an operation that is older than what is remembered.
pub(super) fn too_old_draft() -> Draft {
    let text = "the message is older than the retention: it may have been done and forgotten, so it is never run";
    Draft::new(Verdict::Expired, Layer::Key, Rule::TooOld, text)
}

impl Fold<'_> {
    /// Whether what was made then may have been forgotten. How long is remembered is for the law in force to say.
    pub(super) fn too_old_now(&mut self, made_ms: u64) -> bool {
        self.lawful = true;
        let when = &self.when;
        let earlier = match self.law {
            Law::Machine(machine) => Some(machine.lineage().raised()),
            Law::NoFile | Law::Unreadable(_) => None,
        };
        let mut earlier = earlier.into_iter().flatten();
        // What is kept longer now was forgotten sooner then.
        when.too_old(made_ms)
            || earlier.any(|kept| when.too_old_before(made_ms, kept.retention, kept.until_ms))
    }

    /// Refuses what may have been done, answered and forgotten. It needs no entry of its own: it stays too old.
    pub(super) fn too_old(&mut self, ask: &Transition) -> Judged {
        let draft = too_old_draft().advising(self.advice_if_refused(ask));
        let found = Found::new(Verdict::Expired, Rule::TooOld, draft.explanation());
        let about = About::message(ask, None);
        let mut incident = self.found(&about, found);
        let result = ask.result.clone().filter(|result| !result.is_empty());
        let evidence = result.map(|result| self.evidence_of(&about, result));
        incident.evidence.extend(evidence);
        let id = incident.id.clone();
        self.incident(incident);
        let draft = draft.incident(Some(id));
        Judged::Answered(Box::new(self.showing(draft)))
    }

    /// What the sender of a message that is refused unjudged is advised: as with any other refusal, one that would send again
    /// for ever is told that the matter is settled.
    fn advice_if_refused(&self, ask: &Transition) -> Option<Advice> {
        let Law::Machine(machine) = self.law else {
            return None;
        };
        let event = machine.event(ask.intent.event.as_ref()?)?;
        let upstream = event.event.upstream.as_ref()?;
        (upstream.on_refusal == OnRefusal::KeepsRetrying).then_some(Advice::Acknowledge)
    }

    /// Judges on a copy: what it would write is thrown away.
    pub(super) fn validate(&mut self, judge: impl FnOnce(&mut Self) -> Judged) -> Judged {
        if self.writes() {
            // What is about to be written is no fact yet.
            return Judged::Later;
        }
        let mut trial = self.clone();
        let judged = judge(&mut trial);
        self.absent = trial.absent;
        self.lawful |= trial.lawful;
        match judged {
            Judged::Answered(draft) => Judged::Answered(Box::new(
                draft.told_only(self.bare_snapshot(Arc::default())),
            )),
            other @ (Judged::Later
            | Judged::Unleased
            | Judged::Unlawful(_)
            | Judged::Unfit { .. }
            | Judged::Limit { .. }) => other,
        }
    }

    /// Lets inline operations go whose time is over.
    pub(super) fn prune(&mut self) {
        let When { now, .. } = self.when;
        self.record
            .operations
            .retain(|operation| !operation.over(now));
        if !self.sweeping {
            self.record.touched = Some(now);
        }
    }

    /// Removes what is kept longer than it must be. A sweep is alone in its commit.
    pub(super) fn sweep(&mut self, apart: &[OperationId]) -> Judged {
        if self.writes() {
            return Judged::Later;
        }
        if matches!(self.law, Law::Unreadable(_)) {
            // For how long anything is kept is not known here.
            return Judged::Answered(Box::new(Draft::swept()));
        }
        // How long is for the law in force to say.
        self.lawful = true;
        let When { now, .. } = self.when;
        for id in apart.iter().take(SWEPT_OPERATIONS_MAX) {
            let inline = self.record.operations.iter().any(|found| found.id == *id);
            if !inline && self.find(id).is_some_and(|found| found.over(now)) {
                self.gone.operations.push(id.clone());
                self.record.spilled = self.record.spilled.saturating_sub(1);
            }
        }
        let before = self.record.operations.len();
        self.record.operations.retain(|found| !found.over(now));
        let pruned = before != self.record.operations.len() || !self.gone.operations.is_empty();
        let aged = self.standing.round_ran_out() || self.forget_state();
        if aged {
            // From now on it is remembered for as long as any other.
            self.record.touched = Some(now);
        }
        self.gone.record = self.revision.is_some() && !aged && self.is_spent();
        self.changed = pruned || aged || self.gone.record;
        self.sweeping = self.changed;
        Judged::Answered(Box::new(Draft::swept()))
    }

    /// Forgets the state of a resource that nobody has touched for long enough. Its last round stays known, so that its token
    /// is still judged truly, and so does the fact that it was there.
    fn forget_state(&mut self) -> bool {
        let record = &mut self.record;
        let (Some(forget), Some(touched), Some(_)) =
            (self.when.keeping.forget, record.touched, &record.state)
        else {
            return false;
        };
        let busy = self.live.is_some() || record.spilled > 0 || !record.operations.is_empty();
        let busy = busy || record.has_unsettled();
        if busy || !touched.until(forget).is_over(self.when.now) {
            return false;
        }
        record.state = None;
        record.visits.clear();
        record.identity.clear();
        record.forgotten = Some(self.when.now);
        true
    }

    /// Whether nothing is left that a later request could have to know.
    fn is_spent(&self) -> bool {
        let record = &self.record;
        let held = self.live.is_some() || record.state.is_some();
        let finished = record.spilled > 0 || !record.operations.is_empty();
        if held || finished || record.has_unsettled() {
            return false;
        }
        let remembers = record.round.is_some() || record.forgotten.is_some();
        let touched = record.touched.unwrap_or(self.when.now);
        let retention = self.when.keeping.operations;
        !remembers || touched.until(retention).is_over(self.when.now)
    }
}

impl Record {
    /// Whether the effect of an operation is under way, or may have been: that is kept until it is settled, however long that
    /// takes. What was given back with nothing done is as if it had never been seen, and goes with the record.
    fn has_unsettled(&self) -> bool {
        self.open.iter().any(|open| !open.claim.returned)
    }

    /// Whether it was forgotten, and the request would begin it anew.
    pub(super) fn is_forgotten_for(&self, terms: &Terms<'_>) -> Option<Objection> {
        let asks_for_it = terms.moves || !terms.compare.is_empty();
        (self.forgotten.is_some() && asks_for_it).then_some(Objection::new(
            Verdict::Rejected,
            Rule::Forgotten,
            Layer::State,
        ))
    }
}
