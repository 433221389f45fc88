//! Rounds, as the model has them.

use super::{Model, Said, told};
use crate::domain::decision::{Rule, Verdict};
use crate::domain::ids::Nonce;
use crate::domain::record::PAST_ROUNDS_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Live,
    Released(Nonce),
    Lost,
}

#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) nonce: Nonce,
    pub(super) request: u8,
    pub(super) token: u64,
    pub(super) fate: Fate,
    /// What it has claimed, one after the other.
    pub(super) claims: Vec<u8>,
}

impl Model {
    pub(super) fn live(&self) -> Option<&Round> {
        self.rounds.last().filter(|round| round.fate == Fate::Live)
    }

    pub(super) fn is_live(&self, nonce: Nonce) -> bool {
        self.live().is_some_and(|round| round.nonce == nonce)
    }

    /// The round that holds the resource: its name, its token, and for which attempt at an operation.
    pub(in super::super) fn holder(&self) -> Option<(Nonce, u64, u32)> {
        let live = self.live()?;
        Some((live.nonce, live.token, self.attempt()))
    }

    /// The name of a round, so many before the last one.
    pub(in super::super) fn round(&self, back: usize) -> Option<Nonce> {
        Some(self.rounds.iter().rev().nth(back)?.nonce)
    }

    /// The lease of the live round ends.
    pub(in super::super) fn expire(&mut self) {
        if let Some(last) = self.rounds.last_mut()
            && last.fate == Fate::Live
        {
            last.fate = Fate::Lost;
        }
    }

    /// How a round ended, as far back as that is remembered.
    pub(super) fn end_of(&self, nonce: Nonce) -> Rule {
        let remembered = self.rounds.iter().rev().take(PAST_ROUNDS_MAX + 1);
        let mut named = remembered.filter(|round| round.nonce == nonce);
        match named.next().map(|round| round.fate) {
            Some(Fate::Released(_)) => Rule::Released,
            Some(Fate::Lost) => Rule::Lost,
            Some(Fate::Live) | None => Rule::Over,
        }
    }

    /// The round of this request is over.
    pub(super) fn request_over(&self, request: u8, nonce: Nonce) -> Option<Rule> {
        let last = self.rounds.last();
        if let Some(last) = last.filter(|last| last.request == request) {
            return Some(self.end_of(last.nonce));
        }
        let end = self.end_of(nonce);
        (end != Rule::Over).then_some(end)
    }

    pub(super) fn begin(&mut self, request: u8, nonce: Nonce, token: u64) {
        let highest = self.rounds.iter().map(|round| round.token).max();
        assert!(Some(token) > highest, "tokens must rise");
        self.forget_what_rounds_claimed();
        self.rounds.push(Round {
            nonce,
            request,
            token,
            fate: Fate::Live,
            claims: Vec::new(),
        });
    }

    /// A reservation without a claim.
    pub(in super::super) fn reserve(&mut self, request: u8, nonce: Nonce, token: u64) -> Said {
        let (verdict, rule) = match self.live() {
            Some(live) if live.nonce == nonce => (Verdict::Granted, Rule::WasFree),
            Some(live) if live.request == request => (Verdict::Granted, Rule::SameRequest),
            Some(_) => (Verdict::Busy, Rule::Held),
            None => match self.request_over(request, nonce) {
                Some(end) => (Verdict::Fenced, end),
                None => {
                    self.begin(request, nonce, token);
                    (Verdict::Granted, Rule::WasFree)
                }
            },
        };
        Said::Told(told(verdict, rule))
    }

    pub(in super::super) fn release(
        &mut self,
        round: Nonce,
        nothing_done: bool,
        nonce: Nonce,
    ) -> Said {
        if self.is_live(round) {
            self.end(nonce, nothing_done);
            return Said::Told(told(Verdict::Applied, Rule::Ended));
        }
        let mut remembered = self.rounds.iter().rev().take(PAST_ROUNDS_MAX + 1);
        let mine = remembered.any(|one| one.nonce == round && one.fate == Fate::Released(nonce));
        Said::Told(if mine {
            told(Verdict::Applied, Rule::Ended)
        } else {
            told(Verdict::Replayed, self.end_of(round))
        })
    }

    /// Ends the live round. What it leaves open was interrupted, unless nothing was done for it.
    pub(super) fn end(&mut self, nonce: Nonce, nothing_done: bool) {
        let round = self.rounds.last_mut().unwrap();
        round.fate = Fate::Released(nonce);
        let round = round.nonce;
        let mut open = self.open.iter();
        let left = open.find(|open| open.round == round && !open.returned);
        if let Some(id) = left.map(|open| open.letter.id).filter(|_| nothing_done) {
            self.give_back(id);
        }
    }
}
