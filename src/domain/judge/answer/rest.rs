//! What is added to an answer after it was judged.

use std::time::Duration;

use super::{Certainty, Draft};
use crate::domain::claim::{Finding, Resolution};
use crate::domain::decision::Verdict;
use crate::domain::judge::reserve::BUSY_RETRY_MIN;

/// What the sentence begins with whose judgement was only asked for: it is written as if all of it had happened.
const ONLY_ASKED: &str = "validate_only, so nothing was written; the answer would be: ";

impl Draft {
    /// As it is told to somebody who only asks what would be: nothing was written, and nobody was alerted.
    pub(in crate::domain::judge) fn told_only(mut self, now: Self) -> Self {
        self.certainty = Certainty::Confirm;
        self.repeats = None;
        // No round ends by it, so no lease comes free.
        self.freed = None;
        self.now = now.now;
        self.incident(None).amend(|decision| {
            decision.only_asked = true;
            decision.explanation.insert_str(0, ONLY_ASKED);
        })
    }

    /// The result that the request brought is not kept, for its incident is full.
    pub(in crate::domain::judge) fn tell_unkept(&mut self) {
        if let Some(decision) = self.decision.as_mut() {
            decision.result_unkept = true;
            decision.explanation.push_str(
                "; the result that it brought is NOT kept, for the incident is full: it is only counted there",
            );
        }
    }

    /// A person resolved what it is about.
    pub(in crate::domain::judge) fn resolved(self, resolution: &Resolution) -> Self {
        let told = resolution.told();
        let mut draft = self.adding(&told);
        // Whom a person sent back was decided by a request after all.
        if resolution.finding != Finding::NotDone
            && let Some(decision) = draft.decision.as_mut()
        {
            decision.resolution = Some(told);
        }
        draft
    }

    /// Whether it shows a live round.
    pub fn shows_live(&self) -> bool {
        self.now.as_ref().is_some_and(|now| now.live.is_some())
    }

    /// Tells how long the live round really lasts, where that is known. The record knows only how much a renewal gives. While
    /// somebody waits for the round's end there is no sense in waiting longer.
    pub fn lasts(&mut self, left: Duration) {
        let live = self.now.as_mut().and_then(|now| now.live.as_mut());
        if let Some(live) = live {
            live.at_most = left.min(live.at_most);
        }
        if let Some(decision) = self.decision.as_mut()
            && matches!(decision.verdict, Verdict::Busy | Verdict::InProgress)
        {
            let soon = |after: Duration| after.min(left.max(BUSY_RETRY_MIN));
            decision.retry_after = decision.retry_after.map(soon);
        }
    }
}
