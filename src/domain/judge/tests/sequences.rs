//! Random sequences by two sidecars, with stale knowledge, lost replies, late commits and leases that end, compared with
//! [`Model`].

use std::collections::VecDeque;

use proptest::prelude::*;

use super::message::{Message, completing, fence_as, operation, reserve_as, resolution};
use super::model::{Model, Told};
use super::play::{BASE, Folded, Play, operation_of};
use super::wishes::{Fate, Sent, Step, Wish, afterwards, said, shape, steps};
use crate::domain::decision::{Rule, Verdict};
use crate::domain::ids::{Nonce, ReservationId};
use crate::domain::judge::{
    Answer, Ask, Certainty, Draft, Judged, OperationState, ReservationChange, Standing,
};
use crate::domain::request::{Complete, EndedRounds, Left, Resolve, Running};
use crate::domain::token::Revision;

/// A request, in the words of the model.
#[derive(Clone, Debug)]
enum Plain {
    Reserve(u8, Nonce),
    Release(Nonce, Left, Nonce),
    Claim(Box<Message>, u8, Nonce),
    Complete(Box<Complete>, Nonce),
    Resolve(Box<Resolve>, Nonce),
    Check(Nonce),
    Fence(u64, EndedRounds),
    Send(Box<Message>, Nonce),
    Lookup(u8),
    Inspect,
    Sweep,
}

type Asked = (Ask, Plain);

#[derive(Debug, Default)]
struct Sidecar {
    known: Standing,
    /// Not answered yet; those of an unknown commit first.
    waiting: VecDeque<Asked>,
}

#[derive(Debug)]
struct World {
    play: Play,
    model: Model,
    sidecars: [Sidecar; 2],
    /// Commits on their way, each with its requests.
    on_the_way: Vec<(Folded, Vec<Plain>)>,
}

impl World {
    fn new() -> Self {
        Self {
            play: Play::new(),
            model: Model::default(),
            sidecars: Default::default(),
            on_the_way: Vec::new(),
        }
    }

    fn round(&self, back: usize) -> ReservationId {
        let nonce = self.model.rounds.iter().rev().nth(back);
        self.play
            .id_of(nonce.map_or(Nonce::from_bytes([255; 16]), |round| round.nonce))
    }

    fn asked(&mut self, wish: &Wish) -> Asked {
        let nonce = self.play.nonce();
        let resource = self.play.resource.clone();
        match wish {
            Wish::Reserve { request } => (
                reserve_as(&resource, *request, nonce),
                Plain::Reserve(*request, nonce),
            ),
            Wish::Release { back, nothing_done } => {
                let id = self.round(*back);
                let left = if *nothing_done {
                    Left::NothingDone
                } else {
                    Left::Unsaid
                };
                let plain = Plain::Release(id.round(), left.clone(), nonce);
                (Ask::Release(id, left, nonce), plain)
            }
            Wish::Claim {
                sent,
                request,
                reruns,
            } => {
                let mut message = self.message(sent, nonce);
                if *reruns {
                    message = message.reruns();
                }
                let ask = message.claim(&resource, *request, nonce);
                (ask, Plain::Claim(Box::new(message), *request, nonce))
            }
            Wish::Complete {
                back,
                result,
                release,
            } => {
                let round = self.round(*back);
                let ask = completing(round, said(*result, nonce), afterwards(*release));
                (
                    Ask::Complete(ask.clone(), nonce),
                    Plain::Complete(ask, nonce),
                )
            }
            Wish::Resolve {
                operation: id,
                finding,
                even_if_running,
            } => {
                let running = if *even_if_running {
                    Running::Ended
                } else {
                    Running::Spared
                };
                let ask = resolution(&resource, &format!("op {id}"), *finding, running);
                let ask = Box::new(ask);
                (Ask::Resolve(ask.clone(), nonce), Plain::Resolve(ask, nonce))
            }
            Wish::Check { back } => {
                let id = self.round(*back);
                let plain = Plain::Check(id.round());
                (Ask::Check(id), plain)
            }
            Wish::Fence { back, off, ended } => {
                let round = self.model.rounds.iter().rev().nth(*back);
                let token = round.map_or(BASE, |round| round.token);
                let token = token.saturating_add_signed(*off);
                let ended = if *ended {
                    EndedRounds::Accepted
                } else {
                    EndedRounds::Refused
                };
                (
                    fence_as(&resource, token, ended),
                    Plain::Fence(token, ended),
                )
            }
            Wish::Send(sent) => {
                let message = self.message(sent, nonce);
                let ask = message.ask(&resource, nonce);
                (ask, Plain::Send(Box::new(message), nonce))
            }
            Wish::Lookup { operation: id } => {
                let ask = Ask::Lookup(operation(&format!("op {id}")).into());
                (ask, Plain::Lookup(*id))
            }
            Wish::Inspect => (Ask::Inspect, Plain::Inspect),
            // Within the retention it removes nothing.
            Wish::Sweep => (Ask::Sweep(Vec::new()), Plain::Sweep),
        }
    }

    fn message(&self, sent: &Sent, nonce: Nonce) -> Message {
        let mut message = shape(sent.shape, &format!("op {}", sent.operation));
        if sent.other_content {
            message = message.content("other");
        }
        message.under = sent.under.map(|back| self.round(back));
        message.result = said(sent.result, nonce);
        message.afterwards = afterwards(sent.release);
        message
    }

    /// One request, as the model has it. `None`: it is not a judgement.
    fn judge(&mut self, plain: &Plain, committed: Option<Revision>) -> Option<Told> {
        let model = &mut self.model;
        Some(match plain {
            Plain::Reserve(request, nonce) => {
                let token = BASE + committed.map_or(0, Revision::get);
                model.reserve(*request, *nonce, token)
            }
            Plain::Release(round, left, nonce) => model.release(*round, left.clone(), *nonce),
            Plain::Claim(message, request, nonce) => {
                let token = BASE + committed.map_or(0, Revision::get);
                model.claim(message, *request, *nonce, token)
            }
            Plain::Complete(ask, nonce) => {
                let round = ask.reservation.round();
                return model.complete(round, ask.result.clone(), ask.afterwards, *nonce);
            }
            Plain::Resolve(ask, nonce) => {
                let (id, finding) = (&ask.operation, ask.finding);
                model.resolve(id, finding, &ask.result, ask.running, *nonce)
            }
            Plain::Check(round) => model.check(*round),
            Plain::Fence(token, ended) => model.fence(*token, *ended),
            Plain::Send(message, nonce) => model.transition(message, *nonce),
            Plain::Lookup(_) | Plain::Inspect | Plain::Sweep => return None,
        })
    }

    /// Compares an answer that has been given with the model as it stands then.
    fn compare(&mut self, plain: &Plain, draft: Draft, committed: Option<Revision>) {
        let expected = self.judge(plain, committed);
        let answer = draft.finish(committed);
        if let Some(expected) = expected {
            let decision = answer.decision();
            let told = Told {
                verdict: decision.verdict,
                rule: decision.rule,
                result: decision.result.clone(),
            };
            assert_eq!(told, expected, "{plain:?}");
            let alerts = matches!(
                told.verdict,
                Verdict::Conflict | Verdict::Rejected | Verdict::Superseded | Verdict::Interrupted
            );
            let alerts = alerts
                && told.rule != Rule::NeedsClaim
                && told.rule != Rule::Voided
                && !matches!(plain, Plain::Resolve(..));
            assert!(
                !alerts || decision.incident.is_some(),
                "nobody is alerted: {plain:?}"
            );
        }
        match (&answer, plain) {
            (Answer::Known(state, decision), Plain::Lookup(id)) => {
                let known = self.model.applied(&operation(&format!("op {id}")));
                let seen = known.map(|first| (first.verdict == Verdict::Applied, &first.result));
                let (done, result) = seen.unwrap_or((false, &None));
                if known.is_none() {
                    let unfinished = self.model.unfinished(&operation(&format!("op {id}")));
                    assert_eq!(*state, unfinished);
                }
                assert_eq!(
                    done,
                    matches!(state, OperationState::Done | OperationState::DoneEmpty)
                );
                let told = decision.as_ref().and_then(|told| told.result.clone());
                assert_eq!(told, *result);
            }
            (Answer::Held(..), _) => {
                let live = self
                    .model
                    .live()
                    .expect("a round is given out while none is live");
                assert_eq!(answer.held().nonce, live.nonce);
                assert_eq!(answer.held().token.get(), live.token);
                assert_eq!(answer.held().attempt, self.model.attempt());
            }
            _ => {}
        }
        let (now, incident) = match &answer {
            Answer::Snapshot(now) => (Some(now), None),
            Answer::Swept => (None, None),
            Answer::Judged(decision) | Answer::Ended(decision, ..) | Answer::Held(decision, _) => {
                (decision.now.as_ref(), decision.incident.as_ref())
            }
            Answer::Known(_, decision) => {
                (None, decision.as_ref().and_then(|d| d.incident.as_ref()))
            }
        };
        if let Some(incident) = incident {
            let written = self.play.incidents.contains_key(incident);
            assert!(written, "an incident is named and not written: {plain:?}");
        }
        if let Some(now) = now {
            let state = self.model.path.last().map(|(state, _)| state);
            assert_eq!(now.state.as_ref(), state, "{plain:?}");
            let live = now.live.as_ref().map(|live| live.token.get());
            assert_eq!(live, self.model.live().map(|round| round.token));
            let values = self.model.values.iter();
            let values = values.map(|(name, had)| (name.clone(), had.last().unwrap().clone()));
            assert_eq!(now.identity, values.collect::<Vec<_>>());
        }
    }

    /// The sidecar folds what waits for it, until a commit or a confirmation ends that.
    fn fold(&mut self, sidecar: usize, fate: Fate) {
        // What is known may be old: then the guards refuse, and what is read next is true. Once more if that tells only then
        // which operation a round has claimed, and it is kept apart.
        for attempt in 0.. {
            assert!(attempt < 3, "refused over what is true");
            let waiting = std::mem::take(&mut self.sidecars[sidecar].waiting);
            let asks: Vec<_> = waiting.iter().map(|(ask, _)| ask.clone()).collect();
            let known = self.sidecars[sidecar].known.clone();
            let mut folded = self.play.fold(&known, &asks);
            let unfit = |judged: &Judged| matches!(judged, Judged::Unfit { .. });
            if attempt == 0 && folded.judged.iter().any(unfit) {
                // It is looked at again before anybody is told that it can never work.
                self.sidecars[sidecar].waiting = waiting;
                self.look(sidecar, &folded);
                continue;
            }
            let mut drafts = Vec::new();
            let mut part_of_it = Vec::new();
            let mut again = VecDeque::new();
            let mut later = VecDeque::new();
            for (asked, judged) in waiting.into_iter().zip(std::mem::take(&mut folded.judged)) {
                match judged {
                    // From memory: true whatever has happened since, and whatever becomes of this commit.
                    Judged::Answered(draft) if draft.certainty == Certainty::Fact => {
                        self.compare(&asked.1, *draft, None);
                    }
                    Judged::Answered(draft) => {
                        drafts.push(*draft);
                        part_of_it.push(asked.1.clone());
                        again.push_back(asked);
                    }
                    Judged::Unlawful(why) => panic!("there is no machine: {why:?}"),
                    Judged::Later => {
                        again.push_back(asked.clone());
                        later.push_back(asked);
                    }
                    Judged::Unfit { .. } if drafts.is_empty() && later.is_empty() => {
                        let told = self.judge(&asked.1, None);
                        assert_eq!(told, None, "{:?}", asked.1);
                    }
                    Judged::Unfit { .. } => {
                        again.push_back(asked.clone());
                        later.push_back(asked);
                    }
                    Judged::Limit { what, .. } => panic!("{what}"),
                    Judged::Unleased => panic!("every request brings a lease here"),
                }
            }
            self.sidecars[sidecar].waiting = again;
            let writes = folded.write.is_some();
            if let (Fate::OnItsWay, true) = (fate, writes) {
                self.on_the_way.push((folded, part_of_it));
                return;
            }
            let Ok(committed) = self.play.apply(&folded) else {
                self.look(sidecar, &folded);
                continue;
            };
            if let (Fate::ReplyLost, true) = (fate, writes) {
                for plain in &part_of_it {
                    self.judge(plain, committed);
                }
                return;
            }
            for (plain, draft) in part_of_it.iter().zip(drafts) {
                self.compare(plain, draft, committed);
            }
            self.sidecars[sidecar].waiting = later;
            self.remember(sidecar, &folded, committed);
            return;
        }
    }

    /// Reads the resource, the operations that wait, and those that a fold took to be nowhere.
    fn look(&mut self, sidecar: usize, folded: &Folded) {
        let waiting = &self.sidecars[sidecar].waiting;
        let looked_for: Vec<_> = waiting
            .iter()
            .filter_map(|(ask, _)| operation_of(ask))
            .chain(folded.absent.iter().cloned())
            .collect();
        let before = std::mem::take(&mut self.sidecars[sidecar].known);
        let known = self.play.standing(&looked_for).remembering(before);
        self.sidecars[sidecar].known = known;
    }

    /// What a sidecar knows after its own commit, without reading.
    fn remember(&mut self, sidecar: usize, folded: &Folded, committed: Option<Revision>) {
        let (Some(write), Some(at)) = (folded.write.clone(), committed) else {
            return;
        };
        let before = std::mem::take(&mut self.sidecars[sidecar].known);
        let known = match write.record {
            None => before.with_operations(write.operations),
            Some(record) => {
                let reservation = match write.reservation {
                    ReservationChange::Grant(_) => Some(at),
                    ReservationChange::End => None,
                    ReservationChange::Keep => before.reservation(),
                };
                let known = Standing::seen(Some((record, at)), reservation).unwrap();
                known.with_operations(write.operations).remembering(before)
            }
        };
        self.sidecars[sidecar].known = known;
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Fold {
                sidecar,
                wishes,
                fate,
            } => {
                for wish in wishes {
                    let asked = self.asked(wish);
                    self.sidecars[*sidecar].waiting.push_back(asked);
                }
                self.fold(*sidecar, *fate);
            }
            Step::Expire => {
                self.play.expire();
                self.model.expire();
            }
            Step::Arrive => self.arrive(),
            Step::Restart { sidecar } => {
                // What it had sent may still arrive; what it knew is gone, and so are its callers.
                self.sidecars[*sidecar] = Sidecar::default();
            }
        }
    }

    /// A commit arrives late: it holds or falls as a whole.
    fn arrive(&mut self) {
        let Some((folded, plain)) = self.on_the_way.pop() else {
            return;
        };
        let before = self.play.record.clone();
        if let Ok(committed) = self.play.apply(&folded)
            && before != self.play.record
        {
            for plain in &plain {
                self.judge(plain, committed);
            }
        }
    }

    fn finish(&mut self) {
        while !self.on_the_way.is_empty() {
            self.arrive();
        }
        for sidecar in [0, 1] {
            while !self.sidecars[sidecar].waiting.is_empty() {
                self.fold(sidecar, Fate::Answered);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_every_answer_is_that_of_one_request_after_another(
        steps in prop::collection::vec(steps(), 1..60),
    ) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.finish();
    }
}
