//! Judging what waits, one request after another.

use std::collections::VecDeque;

use super::{Folded, Round};
use crate::domain::ids::OperationId;
use crate::domain::judge::{Certainty, Fold, Judged, Standing};
use crate::engine::fault::Fault;
use crate::engine::outcome::guard_of;
use crate::engine::ticket::Patience;

impl Round<'_> {
    /// Judges the requests from the front, answers what rests on facts alone, and leaves the rest in `tickets`.
    pub(super) fn fold(&mut self) -> Folded {
        let guess = Standing::absent();
        let standing = self.standing.as_ref().unwrap_or(&guess);
        let now = self.shared.clock.when();
        let fold = Fold::begin(self.resource, standing, self.timeline, now);
        let mut fold = fold.under(&self.law.law).knowing(&self.evidence);
        if self.unsettled.is() {
            fold = fold.settling();
        }
        let law_fresh = self.fresh && self.law_found == Some(self.law.since);
        let mut drafts = Vec::new();
        let mut kept = VecDeque::new();
        let mut repeated: Vec<OperationId> = Vec::new();
        let mut unconfirmed = false;
        let mut unleased = false;
        while let Some(ticket) = self.tickets.pop_front() {
            let judged = match ticket.patience() {
                Patience::None => fold.judge(&ticket.ask),
                Patience::Waits(place) => fold.judge_placed(&ticket.ask, place, true),
                Patience::Over(place) => fold.judge_placed(&ticket.ask, place, false),
            };
            // An operation that is nowhere in the record may have a key of its own.
            let sure = self.fresh && !self.unsettled.is() && standing.knows_absent(fold.absent());
            match judged {
                Judged::Answered(draft) if draft.certainty == Certainty::Fact => {
                    repeated.extend(draft.repeats().cloned());
                    self.shared
                        .tell(ticket, draft.finish(None), &mut Vec::new());
                }
                Judged::Answered(draft) => {
                    drafts.push(*draft);
                    kept.push_back(ticket);
                    if self.store_full {
                        break;
                    }
                }
                Judged::Limit { what, limit } if sure && drafts.is_empty() => {
                    self.shared
                        .answer(ticket, Err(Fault::LimitMet { what, limit }));
                }
                Judged::Unlawful(unlawful) if sure && law_fresh && drafts.is_empty() => {
                    let fault = Fault::of_law(self.resource.kind(), unlawful);
                    self.shared.answer(ticket, Err(fault));
                }
                Judged::Unfit { field, reason } if sure && drafts.is_empty() => {
                    let (field, reason) = (field.to_owned(), reason.to_owned());
                    self.shared
                        .answer(ticket, Err(Fault::InvalidField { field, reason }));
                }
                // What is found in a belief, or because of what is still to be written, has to be looked at again.
                Judged::Limit { .. } | Judged::Unlawful(_) | Judged::Unfit { .. } => {
                    unconfirmed = drafts.is_empty();
                    kept.push_back(ticket);
                    break;
                }
                Judged::Unleased => {
                    unleased = drafts.is_empty();
                    kept.push_back(ticket);
                    break;
                }
                Judged::Later => {
                    kept.push_back(ticket);
                    break;
                }
            }
        }
        kept.append(&mut self.tickets);
        self.tickets = kept;
        let absent = fold.absent().clone();
        let lawful = fold.lawful();
        let unread = fold.unread_evidence().iter().cloned().collect();
        let guard = guard_of(standing);
        let seen = standing.revision();
        let write = fold.into_write().map(|write| (write, guard, seen));
        // Facts come from what is known, so there is something that knows them. If what the fold writes is committed, these
        // are among what it counted.
        for id in &repeated {
            if let Some(standing) = &mut self.standing {
                standing.delivered_again(id);
            }
        }
        Folded {
            drafts,
            write,
            absent,
            lawful,
            unconfirmed,
            unleased,
            unread,
        }
    }
}
