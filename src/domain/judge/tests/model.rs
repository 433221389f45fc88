//! What the judgement should say, written for reading: one request after another, the whole history at hand, no records,
//! no revisions, no folds.

use std::collections::{BTreeMap, BTreeSet};

mod claims;

use self::claims::ModelOpen;
use super::message::Message;
use crate::domain::decision::{Rule, Verdict};
use crate::domain::ids::{IdentityName, IdentityValue, Nonce, OperationId, StateName};
use crate::domain::outcome::StoredResult;
use crate::domain::record::PAST_ROUNDS_MAX;
use crate::domain::request::{Afterwards, EndedRounds, Identity, Left};

/// What a request is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) verdict: Verdict,
    pub(super) rule: Rule,
    pub(super) result: Option<StoredResult>,
}

fn told(verdict: Verdict, rule: Rule) -> Told {
    Told {
        verdict,
        rule,
        result: None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Live,
    Released(Nonce),
    Lost,
}

#[derive(Clone, Debug)]
pub(super) struct ModelRound {
    pub(super) nonce: Nonce,
    pub(super) request: u8,
    pub(super) token: u64,
    fate: Fate,
    /// What it has claimed, one after the other.
    claims: Vec<OperationId>,
}

#[derive(Clone, Debug)]
struct Done {
    content: String,
    by: Nonce,
    round: Option<Nonce>,
    first: Told,
    voided: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    /// States entered, one after the other, each with the values in force then.
    pub(super) path: Vec<(StateName, Identity)>,
    /// For each name, the values it had, one after the other.
    pub(super) values: BTreeMap<IdentityName, Vec<IdentityValue>>,
    pub(super) rounds: Vec<ModelRound>,
    done: BTreeMap<OperationId, Done>,
    /// Claimed and not finished, in the order of their last claims.
    open: Vec<ModelOpen>,
    /// Rounds of which it is forgotten what they claimed.
    forgotten: BTreeSet<Nonce>,
}

impl Model {
    pub(super) fn live(&self) -> Option<&ModelRound> {
        self.rounds.last().filter(|round| round.fate == Fate::Live)
    }

    pub(super) fn applied(&self, id: &OperationId) -> Option<&Told> {
        self.done.get(id).map(|done| &done.first)
    }

    pub(super) fn expire(&mut self) {
        if let Some(last) = self.rounds.last_mut()
            && last.fate == Fate::Live
        {
            last.fate = Fate::Lost;
        }
    }

    /// How a round ended, as far back as that is remembered.
    fn end_of(&self, nonce: Nonce) -> Rule {
        let remembered = self.rounds.iter().rev().take(PAST_ROUNDS_MAX + 1);
        let fate = remembered.map(|round| (round.nonce, round.fate));
        match fate.into_iter().find(|(name, _)| *name == nonce) {
            Some((_, Fate::Released(_))) => Rule::Released,
            Some((_, Fate::Lost)) => Rule::Lost,
            Some((_, Fate::Live)) | None => Rule::Over,
        }
    }

    fn is_live(&self, nonce: Nonce) -> bool {
        self.live().is_some_and(|round| round.nonce == nonce)
    }

    pub(super) fn reserve(&mut self, request: u8, nonce: Nonce, token: u64) -> Told {
        if let Some(live) = self.live() {
            return if live.nonce == nonce {
                told(Verdict::Granted, Rule::WasFree)
            } else if live.request == request {
                told(Verdict::Granted, Rule::SameRequest)
            } else {
                told(Verdict::Busy, Rule::Held)
            };
        }
        if let Some(over) = self.request_over(request, nonce) {
            return over;
        }
        self.begin(request, nonce, token);
        told(Verdict::Granted, Rule::WasFree)
    }

    fn request_over(&self, request: u8, nonce: Nonce) -> Option<Told> {
        let last = self.rounds.last();
        if let Some(last) = last.filter(|last| last.request == request) {
            return Some(told(Verdict::Fenced, self.end_of(last.nonce)));
        }
        let end = self.end_of(nonce);
        (end != Rule::Over).then(|| told(Verdict::Fenced, end))
    }

    fn begin(&mut self, request: u8, nonce: Nonce, token: u64) {
        let highest = self.rounds.iter().map(|round| round.token).max();
        assert!(Some(token) > highest, "tokens must rise");
        self.forget_what_rounds_claimed();
        self.rounds.push(ModelRound {
            nonce,
            request,
            token,
            fate: Fate::Live,
            claims: Vec::new(),
        });
    }

    pub(super) fn release(&mut self, round: Nonce, left: Left, nonce: Nonce) -> Told {
        if self.is_live(round) {
            self.end(nonce, left);
            return told(Verdict::Applied, Rule::Ended);
        }
        let mine = |one: &&ModelRound| one.nonce == round && one.fate == Fate::Released(nonce);
        let remembered = self.rounds.iter().rev().take(PAST_ROUNDS_MAX + 1);
        if remembered.into_iter().any(|one| mine(&one)) {
            return told(Verdict::Applied, Rule::Ended);
        }
        told(Verdict::Replayed, self.end_of(round))
    }

    pub(super) fn check(&self, round: Nonce) -> Told {
        if self.is_live(round) {
            return told(Verdict::Granted, Rule::Renewed);
        }
        told(Verdict::Fenced, self.end_of(round))
    }

    pub(super) fn fence(&self, token: u64, ended: EndedRounds) -> Told {
        let last = self.rounds.last().map_or(0, |round| round.token);
        let rule = if token > last {
            Rule::NeverIssued
        } else if token < last {
            Rule::Overtaken
        } else if self.live().is_some() {
            return told(Verdict::Granted, Rule::Live);
        } else if ended == EndedRounds::Accepted {
            return told(Verdict::Granted, Rule::LastGranted);
        } else {
            Rule::TokenEnded
        };
        told(Verdict::Fenced, rule)
    }

    pub(super) fn transition(&mut self, message: &Message, nonce: Nonce) -> Told {
        let under = message.under.as_ref().map(|named| named.round());
        if let Some(done) = self.done.get(&message.operation) {
            return self.again(message, nonce, under, done);
        }
        if let Some(told) = self.of_open(message, nonce) {
            return told;
        }
        match (under, self.live()) {
            (Some(round), _) if !self.is_live(round) => {
                return told(Verdict::Fenced, self.end_of(round));
            }
            (None, Some(_)) => return told(Verdict::Busy, Rule::Held),
            _ => {}
        }
        if let Some(waits) = self.waits(message) {
            return waits;
        }
        let first = match self.allowed(message) {
            Ok(()) => self.take_effect(message, message.result.clone()),
            Err(objection) => objection,
        };
        self.note(message, nonce, under, &first);
        let ends = message.afterwards == Some(Afterwards::Ends) && under.is_some();
        if ends && first.verdict == Verdict::Applied {
            self.end(nonce, Left::Unsaid);
        }
        first
    }

    /// Whatever is decided for good is remembered.
    fn note(&mut self, message: &Message, nonce: Nonce, round: Option<Nonce>, first: &Told) {
        if first.verdict == Verdict::TooEarly {
            return;
        }
        let done = Done {
            content: message.content.clone(),
            by: nonce,
            round,
            first: first.clone(),
            voided: first.rule == Rule::Voided,
        };
        self.done.insert(message.operation.clone(), done);
        self.close(&message.operation);
    }

    fn again(&self, message: &Message, nonce: Nonce, under: Option<Nonce>, done: &Done) -> Told {
        if done.by == nonce {
            return done.first.clone();
        }
        if done.content != message.content {
            return told(Verdict::Conflict, Rule::OtherContent);
        }
        if done.voided && under.is_some() {
            return told(Verdict::Fenced, Rule::DoneWithoutRound);
        }
        if done.first.verdict != Verdict::Applied {
            return done.first.clone();
        }
        let mut rule = Rule::SameContent;
        if let Some(round) = under {
            let same_round = done.round == Some(round);
            if !same_round && !self.is_live(round) {
                return told(Verdict::Fenced, Rule::DoneWithoutRound);
            }
            if same_round && message.result.is_some() && message.result != done.first.result {
                rule = Rule::OtherResult;
            }
        }
        Told {
            verdict: Verdict::Replayed,
            rule,
            result: done.first.result.clone(),
        }
    }

    /// Whether identity and state allow it.
    fn allowed(&self, message: &Message) -> Result<(), Told> {
        let mut unknown = false;
        for (name, value) in &message.identity {
            let had = self.values.get(name).map_or(&[][..], Vec::as_slice);
            if had.last() != Some(value) {
                if had.contains(value) {
                    return Err(told(Verdict::OtherRound, Rule::Replaced));
                }
                unknown = true;
            }
        }
        if unknown {
            return Err(told(Verdict::TooEarly, Rule::NotYetKnown));
        }
        let Some(movement) = &message.movement else {
            return Ok(());
        };
        let now = self.path.last().map(|(state, _)| state);
        let Some(from) = now.or(movement.initial.as_ref()) else {
            return Err(told(Verdict::TooEarly, Rule::NoState));
        };
        if !message.from.is_empty() && !message.from.contains(from) {
            return Err(self.not_from_here(message));
        }
        Ok(())
    }

    fn take_effect(&mut self, message: &Message, result: Option<StoredResult>) -> Told {
        let result = Some(result.unwrap_or_default());
        let Some(movement) = &message.movement else {
            return Told {
                result,
                ..told(Verdict::Applied, Rule::RanOnce)
            };
        };
        if self.path.is_empty() {
            self.enter(movement.initial.clone());
        }
        for (name, value) in &movement.sets {
            let had = self.values.entry(name.clone()).or_default();
            if had.last() != Some(value) {
                had.push(value.clone());
            }
        }
        self.enter(movement.to.clone());
        Told {
            result,
            ..told(Verdict::Applied, Rule::Moved)
        }
    }

    fn enter(&mut self, state: Option<StateName>) {
        let values = self.values.iter();
        let values = values.map(|(name, had)| (name.clone(), had.last().unwrap().clone()));
        let values = values.collect();
        self.path.extend(state.map(|state| (state, values)));
    }

    fn not_from_here(&self, message: &Message) -> Told {
        let movement = message.movement.as_ref().unwrap();
        let position = |wanted: &dyn Fn(&StateName) -> bool| {
            self.path.iter().rposition(|(state, _)| wanted(state))
        };
        let Some(started) = position(&|state| message.from.contains(state)) else {
            return told(Verdict::TooEarly, Rule::NotYetReached);
        };
        let made = match &movement.to {
            Some(to) => position(&|state| state == to).is_some_and(|entered| {
                let then = &self.path[entered].1;
                let mut given = message.identity.iter().chain(&movement.sets);
                entered > started && given.all(|(name, value)| then.get(name) == Some(value))
            }),
            None => {
                let was = |(name, value)| {
                    let had: Option<&Vec<_>> = self.values.get(name);
                    had.is_some_and(|had| had.contains(value))
                };
                !movement.sets.is_empty() && movement.sets.iter().all(was)
            }
        };
        if made {
            told(Verdict::Superseded, Rule::AlreadyMoved)
        } else {
            told(Verdict::Rejected, Rule::Passed)
        }
    }
}
