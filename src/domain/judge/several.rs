//! Reserve and Release of several resources: each is judged on its own record, and all of it is written or nothing.

use super::reserve::{OTHER_RESOURCES, busy_retry, ended_now};
use super::{Draft, Fold, Judged, RecordWrite};
use crate::domain::decision::{Layer, Rule, Verdict};
use crate::domain::ids::{Nonce, ReservationId, ResourceId};
use crate::domain::record::LeaseId;
use crate::domain::request::{Left, Reserve};
use crate::domain::together::{Company, ReserveTogether};

/// The resources of one round, each in a fold of its own, in order: the first leads.
#[derive(Debug)]
pub struct Several<'a> {
    lead: Fold<'a>,
    others: Vec<Fold<'a>>,
}

/// What came of them together.
#[derive(Debug)]
pub enum Concerted {
    /// An answer, and what has to be written before it may be given: all of it or nothing, one for each resource in order.
    Commit {
        /// The answer.
        draft: Box<Draft>,
        /// `None`: what is known of this resource does not show the round. Either that is out of date, or its key was deleted
        /// by hand.
        writes: Vec<Option<RecordWrite>>,
    },
    /// An answer; nothing is written.
    Answer(Box<Draft>),
    /// The round has other resources than these.
    Incomplete,
    /// It can never work as asked.
    Unfit {
        /// Path of the field.
        field: &'static str,
        /// Completes the sentence.
        reason: &'static str,
    },
}

impl<'a> Several<'a> {
    /// Folds in which nothing was judged yet, in the order of their resources.
    pub fn new(lead: Fold<'a>, others: Vec<Fold<'a>>) -> Self {
        Self { lead, others }
    }

    /// The other resources of a round, if it is live and this its lead.
    pub fn others_of(&self, reservation: &ReservationId) -> Option<Vec<ResourceId>> {
        let (round, _) = self.lead.live_round()?;
        match &round.company {
            Company::Leads(others) if self.lead.holds(reservation) => Some(others.clone()),
            Company::Leads(_) | Company::Alone | Company::Follows(_) => None,
        }
    }

    /// Takes all of them; the nonce names the round if it is granted, on this lease.
    pub fn reserve(mut self, ask: &ReserveTogether, nonce: Nonce, lease: LeaseId) -> Concerted {
        // The lead speaks for a round that is there already.
        if let Some((round, _)) = self.lead.live_round() {
            let draft = if round.nonce == nonce {
                // Ours: the commit went through and only its reply was lost.
                Some(granted_now())
            } else if round.request == ask.request
                && round.company == ask.together.company_of(self.lead.resource)
            {
                let text = "this very request was granted before; its reservation is renewed";
                let (layer, rule) = (Layer::Replay, Rule::SameRequest);
                Some(Draft::new(Verdict::Granted, layer, rule, text))
            } else {
                None
            };
            if let Some(draft) = draft {
                return answer(self.lead.holding(self.lead.showing(draft)));
            }
        }
        for fold in self.all() {
            if let Some(refused) = fold.stands_against(ask, nonce) {
                return refused;
            }
        }
        let each = |fold: &mut Fold<'_>| {
            let alone = Reserve {
                resource: fold.resource.clone(),
                request: ask.request,
                ttl: ask.ttl,
                holder: ask.holder.clone(),
                intent: None,
            };
            fold.begin_round(&alone, nonce, lease);
            if let Some(round) = fold.record.round.as_mut() {
                round.company = ask.together.company_of(fold.resource);
            }
        };
        each(&mut self.lead);
        self.others.iter_mut().for_each(each);
        let draft = self.lead.holding(self.lead.showing(granted_now()));
        self.commit(draft)
    }

    /// Ends a round for all of them.
    pub fn release(mut self, reservation: &ReservationId, nonce: Nonce) -> Concerted {
        if !self.lead.holds(reservation) {
            return answer(self.lead.released_before(reservation, nonce));
        }
        let others = self.others_of(reservation).unwrap_or_default();
        if !others
            .iter()
            .eq(self.others.iter().map(|fold| fold.resource))
        {
            return Concerted::Incomplete;
        }
        // There is no claim under it that could be left open.
        let draft = self.lead.end_round(ended_now(), nonce, Left::Unsaid);
        let draft = self.lead.showing(draft);
        for fold in &mut self.others {
            if fold.holds(reservation) {
                fold.end_round(ended_now(), nonce, Left::Unsaid);
            }
        }
        self.commit(draft)
    }

    fn all(&self) -> impl Iterator<Item = &Fold<'a>> {
        std::iter::once(&self.lead).chain(&self.others)
    }

    fn commit(self, draft: Draft) -> Concerted {
        let folds = std::iter::once(self.lead).chain(self.others);
        Concerted::Commit {
            draft: Box::new(draft),
            writes: folds.map(Fold::into_joint_write).collect(),
        }
    }
}

impl Fold<'_> {
    /// Why a round of several cannot begin here.
    fn stands_against(&self, ask: &ReserveTogether, nonce: Nonce) -> Option<Concerted> {
        if let Some((round, _)) = self.live_round() {
            if round.request == ask.request {
                let (field, reason) = OTHER_RESOURCES;
                return Some(Concerted::Unfit { field, reason });
            }
            let text = format!("another reservation holds {}", self.resource);
            let busy = Draft::new(Verdict::Busy, Layer::Fence, Rule::Held, text);
            return Some(answer(
                self.showing(busy.retry_after(busy_retry(round.ttl))),
            ));
        }
        if let Some(over) = self.request_over(ask.request, nonce) {
            return Some(answer(over));
        }
        match self.comes_later(None)? {
            Judged::Answered(later) => Some(answer(*later)),
            other @ (Judged::Later
            | Judged::Unleased
            | Judged::Unlawful(_)
            | Judged::Unfit { .. }
            | Judged::Limit { .. }) => {
                unreachable!("nothing was judged here before, so that {other:?} is no answer")
            }
        }
    }
}

fn granted_now() -> Draft {
    Draft::new(
        Verdict::Granted,
        Layer::Result,
        Rule::WasFree,
        "the resources were free and are now reserved together",
    )
}

fn answer(draft: Draft) -> Concerted {
    Concerted::Answer(Box::new(draft))
}
