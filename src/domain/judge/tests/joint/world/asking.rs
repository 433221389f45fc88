//! From what somebody wants to what is asked.

use std::collections::BTreeSet;

use super::{Asked, Plain, World, key, operation_id};
use crate::domain::ids::{EventName, Nonce};
use crate::domain::judge::Ask;
use crate::domain::judge::tests::joint::model::{Beside, Letter, Resolving, Values};
use crate::domain::judge::tests::joint::sketch::NAMES;
use crate::domain::judge::tests::joint::wishes::{self, Message, Wish};
use crate::domain::judge::tests::message::{
    Message as Sent, completing, happens, reserve_as, resolution, result,
};
use crate::domain::outcome::StoredResult;
use crate::domain::request::{Afterwards, Left, Running};

fn sent(letter: &Letter) -> Sent {
    let [x, y] = letter.content;
    let mut sent =
        happens(&key(letter.id), &letter.event).content(&format!("{{\"x\": {x}, \"y\": {y}}}"));
    for (name, value) in &letter.values {
        sent = sent.of(NAMES[*name], value);
    }
    if letter.old {
        sent = sent.made_at(1);
    }
    sent
}

impl World {
    fn round(&self, back: usize) -> Nonce {
        let never = Nonce::from_bytes([255; 16]);
        self.model.round(back).unwrap_or(never)
    }

    fn event_name(&self, at: usize) -> String {
        let events = &self.model.machine.events;
        let mut from_there = (0..events.len()).map(|more| (at + more) % events.len());
        let found = from_there.find_map(|at| Some(events[at].as_ref()?.name.clone()));
        found.unwrap()
    }

    fn letter(&mut self, wish: &Message) -> Letter {
        if let Some(first) = self.letters.get(&wish.id).filter(|_| wish.same) {
            return first.clone();
        }
        let name = self.event_name(wish.event);
        let events = self.model.machine.events.iter().flatten();
        let event = events.clone().find(|event| event.name == name).unwrap();
        let needed = event.matches.union(&event.sets).copied();
        let mut needed: BTreeSet<usize> = needed.collect();
        needed.extend((0..NAMES.len()).filter(|name| wish.extra[*name]));
        if wish.lacks {
            needed.pop_first();
        }
        let value = |name| (name, format!("v{}", wish.values[name]));
        let letter = Letter {
            id: wish.id,
            event: name,
            content: wish.content,
            values: needed.into_iter().map(value).collect::<Values>(),
            old: wish.old,
        };
        self.letters
            .entry(wish.id)
            .or_insert_with(|| letter.clone());
        letter
    }

    fn beside(&self, wish: &wishes::Beside, under: Option<Nonce>, nonce: Nonce) -> Beside {
        let said = match wish.result {
            0 => None,
            1 => Some(StoredResult::default()),
            2 | 3 => Some(result(b"as usual")),
            4 => Some(result(format!("{nonce:?}").as_bytes())),
            // So large that it goes to a key of its own. By the round alone it could not be found there after another claim.
            _ => Some(result(format!("{nonce:?}").repeat(40).as_bytes())),
        };
        Beside {
            under,
            result: said,
            ends: wish.ends,
            outcome: wish.outcome.map(|at| self.event_name(at)),
        }
    }

    pub(super) fn asked(&mut self, wish: &Wish) -> Option<Asked> {
        let nonce = self.play.nonce();
        let resource = self.play.resource.clone();
        let named = |beside: &Beside| {
            let outcome = beside.outcome.as_ref();
            outcome.map(|name| EventName::parse(name).unwrap())
        };
        let afterwards = |beside: &Beside| {
            let ends = beside.ends?;
            Some(if ends {
                Afterwards::Ends
            } else {
                Afterwards::Stays
            })
        };
        Some(match wish {
            Wish::Reserve { request } => (
                reserve_as(&resource, *request, nonce),
                Plain::Reserve(*request, nonce),
            ),
            Wish::Release { back, nothing_done } => {
                let round = self.round(*back);
                let left = if *nothing_done {
                    Left::NothingDone
                } else {
                    Left::Unsaid
                };
                (
                    Ask::Release(self.play.id_of(round), left, nonce),
                    Plain::Release(round, *nothing_done, nonce),
                )
            }
            Wish::Send {
                message,
                under,
                beside,
            } => {
                let letter = self.letter(message);
                let under = under.map(|back| self.round(back));
                let beside = self.beside(beside, under, nonce);
                let mut sent = sent(&letter);
                sent.under = under.map(|round| self.play.id_of(round));
                sent.result.clone_from(&beside.result);
                sent.afterwards = afterwards(&beside);
                let mut ask = sent.ask(&resource, nonce);
                if let Ask::Transition(asked, _) = &mut ask {
                    asked.outcome = named(&beside);
                }
                (ask, Plain::Send(letter, beside, nonce))
            }
            Wish::Claim {
                message,
                ridden,
                request,
            } => {
                let letter = self.letter(message);
                let ridden = ridden.map(|back| self.round(back));
                let mut sent = sent(&letter);
                sent.under = ridden.map(|round| self.play.id_of(round));
                let ask = sent.claim(&resource, *request, nonce);
                (ask, Plain::Claim(letter, ridden, *request, nonce))
            }
            Wish::Complete { back, beside } => {
                let round = self.round(*back);
                let beside = wishes::Beside {
                    result: beside.result.min(4),
                    ..*beside
                };
                let beside = self.beside(&beside, Some(round), nonce);
                let id = self.play.id_of(round);
                let mut ask = completing(id, beside.result.clone(), afterwards(&beside));
                ask.outcome = named(&beside);
                (Ask::Complete(ask, nonce), Plain::Complete(beside, nonce))
            }
            Wish::Resolve {
                id,
                finding,
                even_if_running,
                attempt,
            } => {
                let running = if *even_if_running {
                    Running::Ended
                } else {
                    Running::Spared
                };
                let mut ask = resolution(&resource, &key(*id), *finding, running);
                ask.attempt = *attempt;
                let plain = Resolving {
                    id: *id,
                    finding: *finding,
                    result: ask.result.clone(),
                    even_if_running: *even_if_running,
                    attempt: *attempt,
                };
                (
                    Ask::Resolve(Box::new(ask), nonce),
                    Plain::Resolve(plain, nonce),
                )
            }
            Wish::Lookup { id } => (Ask::Lookup(operation_id(*id).into()), Plain::Lookup(*id)),
            Wish::Inspect => (Ask::Inspect, Plain::Inspect),
            Wish::Repeat(at) => {
                let at = at % self.unheard.len().max(1);
                return self.unheard.get(at).cloned();
            }
        })
    }
}
