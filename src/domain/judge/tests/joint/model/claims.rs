//! Claims of events, as the model has them: what was judged at the grant is done at the end, and an operation whose claim's round
//! is over has died.

use std::collections::BTreeSet;

use super::{Beside, Done, Letter, Model, Named, Said, Told, changes, counted, told};
use crate::domain::claim::{CLAIM_ATTEMPTS_MAX, PAST_CLAIMS_MAX, RETURNED_OPERATIONS_MAX};
use crate::domain::decision::{Rule, Verdict};
use crate::domain::ids::Nonce;
use crate::domain::judge::OperationState;
use crate::domain::outcome::StoredResult;

/// An operation that was claimed and is not finished, as it was judged at the grant.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) letter: Letter,
    pub(super) event: Named,
    pub(super) from: BTreeSet<usize>,
    pub(super) to: Option<usize>,
    pub(super) sets: BTreeSet<usize>,
    pub(super) clears: BTreeSet<usize>,
    pub(super) creates: bool,
    pub(super) changes: bool,
    reruns: bool,
    pub(super) keeps_retrying: bool,
    counts: super::Counts,
    nonce: Nonce,
    request: u8,
    pub(super) round: Nonce,
    own: bool,
    pub(super) attempts: u32,
    pub(super) returned: bool,
    pub(super) resolved_by: Option<Nonce>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Running,
    Reruns,
    Asks,
    Returned,
}

impl Model {
    pub(super) fn open(&self, id: u8) -> Option<&Open> {
        self.open.iter().find(|open| open.letter.id == id)
    }

    pub(super) fn close(&mut self, id: u8) {
        self.open.retain(|open| open.letter.id != id);
    }

    pub(super) fn how(&self, open: &Open) -> How {
        if open.returned {
            How::Returned
        } else if self.is_live(open.round) {
            How::Running
        } else if open.reruns && open.attempts < CLAIM_ATTEMPTS_MAX {
            How::Reruns
        } else {
            How::Asks
        }
    }

    /// The last one given back is the last to be forgotten.
    pub(super) fn give_back(&mut self, id: u8) {
        let at = self.open.iter().position(|open| open.letter.id == id);
        let mut open = self.open.remove(at.unwrap());
        open.returned = true;
        self.open.push(open);
        let returned = self.open.iter().filter(|open| open.returned).count();
        for _ in RETURNED_OPERATIONS_MAX..returned {
            let oldest = self.open.iter().position(|open| open.returned).unwrap();
            self.open.remove(oldest);
        }
    }

    fn differs_from_open(&self, letter: &Letter, open: &Open) -> Option<Told> {
        let conflict = |rule| {
            let conflict = told(Verdict::Conflict, rule).alerting(true);
            conflict.settled_if(open.keeps_retrying)
        };
        if counted(letter.content, open.counts) != counted(open.letter.content, open.counts) {
            Some(conflict(Rule::OtherContent))
        } else if !open.event.is(&letter.event) {
            Some(conflict(Rule::OtherEvent))
        } else {
            None
        }
    }

    /// A message whose operation is open. `None`: it is judged as if it were new.
    pub(super) fn sent_of_open(
        &mut self,
        letter: &Letter,
        beside: &Beside,
        nonce: Nonce,
    ) -> Option<Said> {
        let open = self.open(letter.id)?.clone();
        if let Some(conflict) = self.differs_from_open(letter, &open) {
            return Some(Said::Told(conflict));
        }
        if let Some(round) = beside.under.filter(|round| !self.is_live(*round)) {
            let over = told(Verdict::Fenced, self.end_of(round));
            return Some(Said::Told(over.alerting(beside.says_something())));
        }
        Some(Said::Told(match (self.how(&open), beside.under) {
            (How::Running, Some(_)) => return Some(self.completed(&open, beside, nonce)),
            (How::Running, None) => told(Verdict::InProgress, Rule::Running),
            (How::Reruns, _) => told(Verdict::Interrupted, Rule::NeedsClaim),
            (How::Asks, _) => told(Verdict::Interrupted, Rule::ClaimDied).alerting(true),
            (How::Returned, _) => return None,
        }))
    }

    fn completed(&mut self, open: &Open, beside: &Beside, nonce: Nonce) -> Said {
        let given = &open.letter.values;
        let mut outcome = None;
        let (to, sets, clears) = match &beside.outcome {
            None => (open.to, open.sets.clone(), open.clears.clone()),
            Some(name) => {
                let Some((at, event)) = self.event_named(name) else {
                    return Said::Error("no event");
                };
                let starts = match self.state() {
                    None => event.creates(),
                    Some(here) => event.from().contains(&here),
                };
                let matched =
                    |name| given.contains_key(name) && given.get(name) == self.values.get(name);
                let fits = event.matches.iter().all(matched)
                    && event.sets.iter().all(|name| given.contains_key(name));
                if !starts || !fits {
                    return Said::Error("outcome_event");
                }
                if open.event.now != Some(at) {
                    outcome = Some(self.judged_as(at));
                }
                (event.to(), event.sets.clone(), event.clears.clone())
            }
        };
        self.apply(to, &sets, &clears, given);
        let first = Told {
            result: Some(beside.result.clone().unwrap_or_default()),
            ..told(Verdict::Applied, Rule::Moved)
        };
        self.settle(open, nonce, Some(open.round), &first, outcome);
        if beside.ends.unwrap_or(open.own) {
            self.end(nonce, false);
        }
        Said::Told(first)
    }

    pub(super) fn settle(
        &mut self,
        open: &Open,
        by: Nonce,
        round: Option<Nonce>,
        first: &Told,
        outcome: Option<Named>,
    ) {
        let done = Done {
            event: open.event.clone(),
            counted: counted(open.letter.content, open.counts),
            counts: open.counts,
            by,
            round,
            first: first.clone(),
            keeps_retrying: open.keeps_retrying,
            outcome,
        };
        self.done.insert(open.letter.id, done);
        self.close(open.letter.id);
    }

    /// The open operation that has to come first.
    pub(super) fn waits(&self, id: u8, changes: bool) -> Option<Told> {
        if !changes {
            return None;
        }
        let others = self.open.iter();
        let mut others = others.filter(|open| open.letter.id != id && open.changes);
        others.find_map(|open| match self.how(open) {
            How::Running => Some(told(Verdict::Busy, Rule::ClaimOpen)),
            How::Asks => Some(told(Verdict::Interrupted, Rule::OtherInterrupted).alerting(true)),
            How::Reruns | How::Returned => None,
        })
    }

    /// A claim is asked for, on a round that the caller has or on one of its own.
    pub(in super::super) fn claim(
        &mut self,
        letter: &Letter,
        ridden: Option<Nonce>,
        request: u8,
        nonce: Nonce,
        token: u64,
    ) -> Said {
        let nothing = Beside::default();
        if let Some(done) = self.done.get(&letter.id) {
            return Said::Told(self.again(Some(letter), &nothing, nonce, done));
        }
        let before = self.open(letter.id).cloned();
        if let Some(open) = &before {
            if let Some(conflict) = self.differs_from_open(letter, open) {
                return Said::Told(conflict);
            }
            match self.how(open) {
                How::Running => {
                    return Said::Told(if open.nonce == nonce {
                        told(Verdict::Granted, Rule::Claimed)
                    } else if open.request == request {
                        told(Verdict::Granted, Rule::SameRequest)
                    } else {
                        told(Verdict::InProgress, Rule::Running)
                    });
                }
                How::Asks => {
                    let died = told(Verdict::Interrupted, Rule::ClaimDied);
                    return Said::Told(died.alerting(true));
                }
                How::Reruns | How::Returned => {}
            }
        }
        if letter.old && before.as_ref().is_none_or(|open| open.returned) {
            return Said::Told(self.too_old(letter));
        }
        let (at, event) = match self.fits(letter) {
            Ok((at, event)) => (at, event.clone()),
            Err(error) => return error,
        };
        let none_fits = match ridden {
            Some(round) if !self.is_live(round) => Some(told(Verdict::Fenced, self.end_of(round))),
            Some(round) => {
                let mut open = self.open.iter();
                let taken = open.any(|open| open.round == round && !open.returned);
                taken.then(|| told(Verdict::Busy, Rule::ClaimOpen))
            }
            None if self.live().is_some() => Some(self.held(&event)),
            None => self
                .request_over(request, nonce)
                .map(|end| told(Verdict::Fenced, end)),
        };
        if let Some(refused) = none_fits.or_else(|| self.waits(letter.id, changes(&event))) {
            return Said::Told(refused);
        }
        if let Err((verdict, rule)) = self.allowed(&event, &letter.values) {
            let first = self.refusal(letter, &event, verdict, rule, &nothing);
            self.note(letter, at, &event, nonce, None, &first);
            return Said::Told(first);
        }
        if ridden.is_none() {
            self.begin(request, nonce, token);
        }
        let round = self.rounds.last_mut().unwrap();
        round.claims.push(letter.id);
        let round = round.nonce;
        self.close(letter.id);
        self.open.push(Open {
            letter: letter.clone(),
            event: self.judged_as(at),
            from: event.from(),
            to: event.to(),
            sets: event.sets.clone(),
            clears: event.clears.clone(),
            creates: event.creates(),
            changes: changes(&event),
            reruns: event.reruns,
            keeps_retrying: event.keeps_retrying,
            counts: event.counts,
            nonce,
            request,
            round,
            own: ridden.is_none(),
            attempts: before.as_ref().map_or(0, |open| open.attempts) + 1,
            returned: false,
            resolved_by: before.and_then(|open| open.resolved_by),
        });
        Said::Told(told(Verdict::Granted, Rule::Claimed))
    }

    /// What a round has claimed, as far back as that is remembered.
    fn carried(&self, round: Nonce) -> &[u8] {
        let Some((last, before)) = self.rounds.split_last() else {
            return &[];
        };
        if last.nonce == round {
            return &last.claims;
        }
        let mut one = before.iter().filter(|past| past.claims.len() == 1);
        one.find(|past| past.nonce == round && !self.forgotten.contains(&round))
            .map_or(&[], |past| &past.claims)
    }

    /// Before a round begins, only so much stays known of those before it: all that is open, and the newest of the others.
    pub(super) fn forget_what_rounds_claimed(&mut self) {
        let Some((last, before)) = self.rounds.split_last() else {
            return;
        };
        if last.claims.len() != 1 {
            return;
        }
        let settled = before.iter().filter(|past| {
            let is_open = |open: &Open| {
                open.round == past.nonce && past.claims[0] == open.letter.id && !open.returned
            };
            past.claims.len() == 1
                && !self.forgotten.contains(&past.nonce)
                && !self.open.iter().any(is_open)
        });
        let settled: Vec<Nonce> = settled.map(|past| past.nonce).collect();
        let too_many = settled.len().saturating_sub(PAST_CLAIMS_MAX - 1);
        self.forgotten.extend(&settled[..too_many]);
    }

    /// The result of an effect, by the round of its claim alone.
    pub(in super::super) fn complete(&mut self, beside: &Beside, nonce: Nonce) -> Said {
        let round = beside.under.unwrap();
        let mut done = self.done.values();
        if let Some(own) = done.find(|done| done.by == nonce && done.round == Some(round)) {
            return Said::Told(own.first.clone());
        }
        let over = told(Verdict::Fenced, self.end_of(round)).alerting(beside.says_something());
        let id = match self.carried(round) {
            [one] => *one,
            _ if self.is_live(round) => return Said::Error("intent"),
            _ => return Said::Told(over),
        };
        if let Some(done) = self.done.get(&id) {
            return Said::Told(self.again(None, beside, nonce, done));
        }
        match self.open(id).cloned() {
            Some(open) if self.is_live(round) => self.completed(&open, beside, nonce),
            Some(_) | None => Said::Told(over),
        }
    }

    /// What a Lookup says.
    pub(in super::super) fn lookup(&self, id: u8) -> (OperationState, Option<StoredResult>) {
        if let Some(done) = self.done.get(&id) {
            let state = match (&done.first.verdict, &done.first.result) {
                (Verdict::Applied, Some(result)) if !result.is_empty() => OperationState::Done,
                (Verdict::Applied, _) => OperationState::DoneEmpty,
                _ => OperationState::Refused,
            };
            return (state, done.first.result.clone());
        }
        let state = match self.open(id).map(|open| self.how(open)) {
            None | Some(How::Returned) => OperationState::NeverSeen,
            Some(How::Running) => OperationState::Running,
            Some(How::Reruns | How::Asks) => OperationState::Interrupted,
        };
        (state, None)
    }

    /// Operations that are claimed and not finished, in their order, and whether each was given back.
    pub(in super::super) fn unfinished(&self) -> Vec<(u8, bool, u32)> {
        let open = self.open.iter();
        open.map(|open| (open.letter.id, open.returned, open.attempts))
            .collect()
    }

    /// Operations that are finished, and whether each was done.
    pub(in super::super) fn finished(&self) -> Vec<(u8, bool)> {
        let done = self.done.iter();
        done.map(|(id, done)| (*id, done.first.verdict == Verdict::Applied))
            .collect()
    }

    /// Which attempt the live round is for.
    pub(super) fn attempt(&self) -> u32 {
        let mut open = self.open.iter();
        let running = open.find(|open| self.how(open) == How::Running);
        running.map_or(0, |open| open.attempts)
    }
}
