//! Claims, as the model has them: an operation whose claim's round is over has died.

use super::{Fate, Model, Told, told};
use crate::domain::claim::{CLAIM_ATTEMPTS_MAX, Finding, PAST_CLAIMS_MAX, RETURNED_OPERATIONS_MAX};
use crate::domain::decision::{Rule, Verdict};
use crate::domain::ids::{Nonce, OperationId};
use crate::domain::judge::OperationState;
use crate::domain::judge::tests::message::Message;
use crate::domain::outcome::StoredResult;
use crate::domain::request::{Afterwards, Interrupted, Left, Running};

#[derive(Clone, Debug)]
pub(super) struct ModelOpen {
    /// As it was granted.
    message: Message,
    nonce: Nonce,
    request: u8,
    round: Nonce,
    own: bool,
    attempts: u32,
    returned: bool,
    resolved_by: Option<Nonce>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Running,
    Reruns,
    Asks,
    Returned,
}

fn moves(message: &Message) -> bool {
    let movement = message.movement.as_ref();
    movement.is_some_and(|to| to.to.is_some() || to.initial.is_some() || !to.sets.is_empty())
}

impl Model {
    fn open(&self, id: &OperationId) -> Option<&ModelOpen> {
        self.open.iter().find(|open| open.message.operation == *id)
    }

    pub(super) fn close(&mut self, id: &OperationId) {
        self.open.retain(|open| open.message.operation != *id);
    }

    fn how(&self, open: &ModelOpen) -> How {
        if open.returned {
            How::Returned
        } else if self.is_live(open.round) {
            How::Running
        } else if open.message.interrupted == Interrupted::Rerun
            && open.attempts < CLAIM_ATTEMPTS_MAX
        {
            How::Reruns
        } else {
            How::Asks
        }
    }

    /// Ends the live round.
    pub(super) fn end(&mut self, nonce: Nonce, left: Left) {
        let round = self.rounds.last_mut().unwrap();
        round.fate = Fate::Released(nonce);
        let round = round.nonce;
        if left == Left::NothingDone {
            let open = self
                .open
                .iter()
                .find(|open| open.round == round && !open.returned);
            if let Some(id) = open.map(|open| open.message.operation.clone()) {
                self.give_back(&id);
            }
        }
    }

    /// The last one given back is the last to be forgotten.
    fn give_back(&mut self, id: &OperationId) {
        let mut all = self.open.iter();
        let at = all.position(|open| open.message.operation == *id).unwrap();
        let mut open = self.open.remove(at);
        open.returned = true;
        self.open.push(open);
        let returned = self.open.iter().filter(|open| open.returned).count();
        for _ in RETURNED_OPERATIONS_MAX..returned {
            let oldest = self.open.iter().position(|open| open.returned).unwrap();
            self.open.remove(oldest);
        }
    }

    /// What becomes of a message whose operation is open. `None`: it is judged as if it were new.
    pub(super) fn of_open(&mut self, message: &Message, nonce: Nonce) -> Option<Told> {
        let open = self.open(&message.operation)?.clone();
        if open.message.content != message.content {
            return Some(told(Verdict::Conflict, Rule::OtherContent));
        }
        let under = message.under.as_ref().map(|named| named.round());
        if let Some(round) = under.filter(|round| !self.is_live(*round)) {
            return Some(told(Verdict::Fenced, self.end_of(round)));
        }
        Some(match (self.how(&open), under) {
            (How::Running, Some(_)) => {
                self.completed(&open, message.result.clone(), message.afterwards, nonce)
            }
            (How::Running, None) => told(Verdict::InProgress, Rule::Running),
            (How::Reruns, _) => told(Verdict::Interrupted, Rule::NeedsClaim),
            (How::Asks, _) => told(Verdict::Interrupted, Rule::ClaimDied),
            (How::Returned, _) => return None,
        })
    }

    fn completed(
        &mut self,
        open: &ModelOpen,
        result: Option<StoredResult>,
        afterwards: Option<Afterwards>,
        nonce: Nonce,
    ) -> Told {
        let first = self.take_effect(&open.message, result);
        self.note(&open.message, nonce, Some(open.round), &first);
        if afterwards.map_or(open.own, |afterwards| afterwards == Afterwards::Ends) {
            self.end(nonce, Left::Unsaid);
        }
        first
    }

    /// The open operation that has to come first.
    pub(super) fn waits(&self, message: &Message) -> Option<Told> {
        if !moves(message) {
            return None;
        }
        let others = self.open.iter();
        let mut others = others
            .filter(|open| open.message.operation != message.operation && moves(&open.message));
        others.find_map(|open| match self.how(open) {
            How::Running => Some(told(Verdict::Busy, Rule::ClaimOpen)),
            How::Asks => Some(told(Verdict::Interrupted, Rule::OtherInterrupted)),
            How::Reruns | How::Returned => None,
        })
    }

    pub(crate) fn claim(
        &mut self,
        message: &Message,
        request: u8,
        nonce: Nonce,
        token: u64,
    ) -> Told {
        // As a message it names no round and brings no result.
        let plain = Message {
            under: None,
            result: None,
            ..message.clone()
        };
        if let Some(done) = self.done.get(&message.operation) {
            return self.again(&plain, nonce, None, done);
        }
        let before = self.open(&message.operation).cloned();
        if let Some(open) = &before {
            if open.message.content != message.content {
                return told(Verdict::Conflict, Rule::OtherContent);
            }
            match self.how(open) {
                How::Running if open.nonce == nonce => {
                    return told(Verdict::Granted, Rule::Claimed);
                }
                How::Running if open.request == request => {
                    return told(Verdict::Granted, Rule::SameRequest);
                }
                How::Running => return told(Verdict::InProgress, Rule::Running),
                How::Asks => return told(Verdict::Interrupted, Rule::ClaimDied),
                How::Reruns | How::Returned => {}
            }
        }
        let ridden = message.under.as_ref().map(|named| named.round());
        let none_fits = match ridden {
            Some(round) if !self.is_live(round) => Some(told(Verdict::Fenced, self.end_of(round))),
            Some(round) => {
                let mut open = self.open.iter();
                let taken = open.any(|open| open.round == round && !open.returned);
                taken.then(|| told(Verdict::Busy, Rule::ClaimOpen))
            }
            None if self.live().is_some() => Some(told(Verdict::Busy, Rule::Held)),
            None => self.request_over(request, nonce),
        };
        if let Some(refused) = none_fits.or_else(|| self.waits(message)) {
            return refused;
        }
        if let Err(objection) = self.allowed(&plain) {
            self.note(&plain, nonce, None, &objection);
            return objection;
        }
        if ridden.is_none() {
            self.begin(request, nonce, token);
        }
        let round = self.rounds.last_mut().unwrap();
        round.claims.push(message.operation.clone());
        let round = round.nonce;
        self.close(&message.operation);
        self.open.push(ModelOpen {
            message: plain,
            nonce,
            request,
            round,
            own: ridden.is_none(),
            attempts: before.as_ref().map_or(0, |open| open.attempts) + 1,
            returned: false,
            resolved_by: before.and_then(|open| open.resolved_by),
        });
        told(Verdict::Granted, Rule::Claimed)
    }

    /// What a round has claimed, as far back as that is remembered.
    fn carried(&self, round: Nonce) -> &[OperationId] {
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
            let is_open = |open: &ModelOpen| {
                open.round == past.nonce
                    && past.claims[0] == open.message.operation
                    && !open.returned
            };
            past.claims.len() == 1
                && !self.forgotten.contains(&past.nonce)
                && !self.open.iter().any(is_open)
        });
        let settled: Vec<Nonce> = settled.map(|past| past.nonce).collect();
        let too_many = settled.len().saturating_sub(PAST_CLAIMS_MAX - 1);
        self.forgotten.extend(&settled[..too_many]);
    }

    /// `None`: it can never work as asked.
    pub(crate) fn complete(
        &mut self,
        round: Nonce,
        result: Option<StoredResult>,
        afterwards: Option<Afterwards>,
        nonce: Nonce,
    ) -> Option<Told> {
        let live = self.is_live(round);
        let mut done = self.done.values();
        if let Some(own) = done.find(|done| done.by == nonce && done.round == Some(round)) {
            return Some(own.first.clone());
        }
        let id = match self.carried(round) {
            [one] => one.clone(),
            _ if live => return None,
            _ => return Some(told(Verdict::Fenced, self.end_of(round))),
        };
        if let Some(open) = self.open(&id).cloned() {
            if live {
                return Some(self.completed(&open, result, afterwards, nonce));
            }
            return Some(told(Verdict::Fenced, self.end_of(round)));
        }
        let Some(done) = self.done.get(&id) else {
            return Some(told(Verdict::Fenced, self.end_of(round)));
        };
        let mut message = super::super::message::once(id.as_str());
        message.content.clone_from(&done.content);
        message.result = result;
        Some(self.again(&message, nonce, Some(round), done))
    }

    pub(crate) fn resolve(
        &mut self,
        id: &OperationId,
        finding: Finding,
        result: &StoredResult,
        running: Running,
        nonce: Nonce,
    ) -> Told {
        let resolved = told(Verdict::Applied, Rule::Resolved);
        if let Some(done) = self.done.get(id) {
            let applied = done.first.verdict == Verdict::Applied;
            return if done.by == nonce {
                resolved
            } else if finding == Finding::Done && applied {
                Told {
                    result: done.first.result.clone(),
                    ..told(Verdict::Replayed, Rule::Finished)
                }
            } else if finding == Finding::Refused && !applied {
                told(Verdict::Replayed, Rule::Finished)
            } else {
                told(Verdict::Rejected, Rule::Finished)
            };
        }
        let Some(open) = self.open(id).cloned() else {
            return told(Verdict::Rejected, Rule::NeverClaimed);
        };
        if open.resolved_by == Some(nonce) {
            return resolved;
        }
        let how = self.how(&open);
        if how == How::Running && running == Running::Spared {
            return told(Verdict::InProgress, Rule::Running);
        }
        if how == How::Returned && finding == Finding::NotDone {
            return told(Verdict::Replayed, Rule::Finished);
        }
        if finding == Finding::Done && how != How::Running {
            if moves(&open.message) && self.live().is_some() {
                return told(Verdict::Busy, Rule::Held);
            }
            if let Err(objection) = self.allowed(&open.message) {
                return told(Verdict::Rejected, objection.rule);
            }
        }
        match finding {
            Finding::Done => {
                let first = self.take_effect(&open.message, Some(result.clone()));
                self.note(&open.message, nonce, None, &first);
            }
            Finding::Refused => {
                let first = told(Verdict::Rejected, Rule::Voided);
                self.note(&open.message, nonce, None, &first);
            }
            Finding::NotDone => {
                let mut all = self.open.iter_mut();
                let found = all.find(|one| one.message.operation == *id);
                found.unwrap().resolved_by = Some(nonce);
                self.give_back(id);
            }
        }
        if how == How::Running {
            self.end(nonce, Left::Unsaid);
        }
        resolved
    }

    /// What a Lookup says of an operation that is not finished.
    pub(crate) fn unfinished(&self, id: &OperationId) -> OperationState {
        match self.open(id).map(|open| self.how(open)) {
            None | Some(How::Returned) => OperationState::NeverSeen,
            Some(How::Running) => OperationState::Running,
            Some(How::Reruns | How::Asks) => OperationState::Interrupted,
        }
    }

    /// Which attempt the live round is for.
    pub(crate) fn attempt(&self) -> u32 {
        let mut open = self.open.iter();
        let running = open.find(|open| self.how(open) == How::Running);
        running.map_or(0, |open| open.attempts)
    }
}
