//! Two sidecars, one store, and the model beside them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use super::super::message::operation;
use super::super::play::{BASE, Folded, Play, operation_of};
use super::super::wishes::Fate;
use super::model::{Beside, Letter, Model, Resolving, Said, Told};
use super::sketch::{Revised, Sketch};
use super::wishes::Step;
use crate::domain::decision::{Decision, Verdict};
use crate::domain::ids::{Nonce, OperationId};
use crate::domain::judge::{
    Answer, Ask, Certainty, Judged, Law, OperationState, ReservationChange, Standing, Unlawful,
};
use crate::domain::machine::{Filed, Machine, Succession, succession};
use crate::domain::token::Revision;

mod asking;

/// A request, in the words of the model.
#[derive(Clone, Debug)]
enum Plain {
    Reserve(u8, Nonce),
    Release(Nonce, bool, Nonce),
    Send(Letter, Beside, Nonce),
    Claim(Letter, Option<Nonce>, u8, Nonce),
    Complete(Beside, Nonce),
    Resolve(Resolving, Nonce),
    Lookup(u8),
    Inspect,
}

impl Plain {
    /// The operation that it is about, as far as it says so, and the name of its request.
    fn of(&self) -> Option<(u8, Nonce)> {
        match self {
            Self::Send(letter, _, nonce) | Self::Claim(letter, _, _, nonce) => {
                Some((letter.id, *nonce))
            }
            _ => None,
        }
    }
}

type Asked = (Ask, Plain);

#[derive(Debug)]
struct Sidecar {
    known: Standing,
    law: Law,
    /// Not answered yet; those of an unknown commit first.
    waiting: VecDeque<Asked>,
}

/// What is told, before the commit that it belongs to.
#[derive(Debug)]
enum Draft {
    Answer(Box<crate::domain::judge::Draft>),
    Error(&'static str),
    Unlawful(Unlawful),
}

#[derive(Debug)]
pub(super) struct World {
    play: Play,
    model: Model,
    filed: Filed,
    law: Law,
    sidecars: [Sidecar; 2],
    /// Commits on their way, each with the law that it was judged by and its requests.
    on_the_way: Vec<(Folded, Law, Vec<Plain>)>,
    /// What was first sent under each key.
    letters: BTreeMap<u8, Letter>,
    /// Requests whose callers never heard an answer, or may ask once more.
    unheard: VecDeque<Asked>,
    /// For each operation, the requests that were told that they did it, and all results that were told of it.
    did: BTreeMap<u8, BTreeSet<Nonce>>,
    results: BTreeMap<u8, BTreeSet<Bytes>>,
}

fn key(id: u8) -> String {
    format!("op {id}")
}

fn operation_id(id: u8) -> OperationId {
    operation(&key(id))
}

fn number(id: &OperationId) -> u8 {
    id.as_str().strip_prefix("op ").unwrap().parse().unwrap()
}

fn law_of(filed: &Filed) -> Law {
    Law::Machine(Arc::new(filed.open().unwrap()))
}

fn file(sketch: &Sketch, before: Option<&Filed>) -> Option<Filed> {
    let source = Bytes::from(sketch.file());
    let machine = Machine::read(&source).machine?;
    match succession(before, &machine, &source, 0) {
        Succession::Install(filed) => Some(*filed),
        Succession::Same | Succession::Lower | Succession::Refused(_) => None,
    }
}

impl World {
    /// `None`: it is no machine.
    pub(super) fn under(sketch: Sketch) -> Option<Self> {
        let filed = file(&sketch, None)?;
        let law = law_of(&filed);
        let sidecar = || Sidecar {
            known: Standing::default(),
            law: law.clone(),
            waiting: VecDeque::new(),
        };
        Some(Self {
            play: Play::new(),
            model: Model::new(sketch),
            sidecars: [sidecar(), sidecar()],
            filed,
            law,
            on_the_way: Vec::new(),
            letters: BTreeMap::new(),
            unheard: VecDeque::new(),
            did: BTreeMap::new(),
            results: BTreeMap::new(),
        })
    }

    /// One request, as the model has it. `None`: it is not a judgement.
    fn judge(&mut self, plain: &Plain, committed: Option<Revision>) -> Option<Said> {
        let model = &mut self.model;
        let token = BASE + committed.map_or(0, Revision::get);
        Some(match plain {
            Plain::Reserve(request, nonce) => model.reserve(*request, *nonce, token),
            Plain::Release(round, nothing, nonce) => model.release(*round, *nothing, *nonce),
            Plain::Send(letter, beside, nonce) => model.send(letter, beside, *nonce),
            Plain::Claim(letter, ridden, request, nonce) => {
                model.claim(letter, *ridden, *request, *nonce, token)
            }
            Plain::Complete(beside, nonce) => model.complete(beside, *nonce),
            Plain::Resolve(ask, nonce) => model.resolve(ask, *nonce),
            Plain::Lookup(_) | Plain::Inspect => return None,
        })
    }

    /// Compares an answer that has been given with the model as it stands then.
    fn compare(&mut self, plain: &Plain, draft: Draft, committed: Option<Revision>) {
        let expected = self.judge(plain, committed);
        let answer = match draft {
            Draft::Error(error) => {
                assert_eq!(Some(Said::Error(error)), expected, "{plain:?}");
                return;
            }
            Draft::Unlawful(why) => {
                assert_eq!(Some(Said::Error(word(&why))), expected, "{plain:?}");
                return;
            }
            Draft::Answer(draft) => draft.finish(committed),
        };
        if let Some(expected) = expected {
            let decision = answer.decision();
            let Said::Told(expected) = expected else {
                panic!("{decision:?} instead of {expected:?} to {plain:?}");
            };
            self.compare_decision(plain, decision, &expected);
        }
        match (&answer, plain) {
            (Answer::Known(state, decision), Plain::Lookup(id)) => {
                let told = decision.as_ref().and_then(|told| told.result.clone());
                assert_eq!((*state, told), self.model.lookup(*id), "{id}");
                assert_ne!(*state, OperationState::Expired);
            }
            (Answer::Held(..), _) => {
                let held = answer.held();
                let holder = self.model.holder();
                let (nonce, token, attempt) =
                    holder.expect("a round is given out, and none is live");
                assert_eq!(
                    (held.nonce, held.token.get(), held.attempt),
                    (nonce, token, attempt)
                );
            }
            _ => {}
        }
        let now = match &answer {
            Answer::Snapshot(now) => Some(now),
            Answer::Judged(decision) | Answer::Ended(decision, ..) | Answer::Held(decision, _) => {
                decision.now.as_ref()
            }
            Answer::Known(..) | Answer::Swept => None,
        };
        if let Some(now) = now {
            let state = now.state.as_ref();
            let state = state.map(|state| self.model.state_named(state.as_str()));
            assert_eq!(state, self.model.state(), "{plain:?}");
            let live = now.live.as_ref().map(|live| live.token.get());
            assert_eq!(
                live,
                self.model.holder().map(|(_, token, _)| token),
                "{plain:?}"
            );
            let values = now.identity.iter();
            let values = values.map(|(name, value)| (name.to_string(), value.to_string()));
            assert_eq!(values.collect::<Vec<_>>(), self.model.values(), "{plain:?}");
        }
    }

    fn compare_decision(&mut self, plain: &Plain, decision: &Decision, expected: &Told) {
        let told = Told {
            verdict: decision.verdict,
            rule: decision.rule,
            advice: decision.advice(),
            result: decision.result.clone(),
            alerts: expected.alerts.map(|_| decision.incident.is_some()),
        };
        assert_eq!(told, *expected, "{plain:?}: {decision:?}");
        if let Some(incident) = &decision.incident {
            let written = self.play.incidents.contains_key(incident);
            assert!(written, "an incident is named and not written: {plain:?}");
        }
        let Some((id, nonce)) = plain.of() else {
            return;
        };
        // What no model need say: an operation is done by one request, and has one result.
        if decision.verdict == Verdict::Applied {
            self.did.entry(id).or_default().insert(nonce);
            assert_eq!(self.did[&id].len(), 1, "done twice: {plain:?}");
        }
        if matches!(decision.verdict, Verdict::Applied | Verdict::Replayed) {
            let body = decision.result.clone().unwrap_or_default().body;
            self.results.entry(id).or_default().insert(body);
            assert_eq!(self.results[&id].len(), 1, "two results: {plain:?}");
        }
    }

    fn is_in_force(&self, law: &Law) -> bool {
        law.version() == self.law.version()
    }

    /// The sidecar folds what waits for it, until a commit or a confirmation ends that.
    fn fold(&mut self, sidecar: usize, fate: Fate) {
        // What is known may be old: then the guards refuse, and what is read next is true. Once more if that tells only then
        // which operation a round has claimed, and it is kept apart; and once more for the law.
        for attempt in 0.. {
            assert!(attempt < 4, "refused over what is true");
            let waiting = std::mem::take(&mut self.sidecars[sidecar].waiting);
            let asks: Vec<_> = waiting.iter().map(|(ask, _)| ask.clone()).collect();
            let known = self.sidecars[sidecar].known.clone();
            self.play.law = self.sidecars[sidecar].law.clone();
            let mut folded = self.play.fold(&known, &asks);
            let mut drafts = Vec::new();
            let mut part_of_it: Vec<Asked> = Vec::new();
            let mut again = VecDeque::new();
            let mut later = VecDeque::new();
            for (asked, judged) in waiting.into_iter().zip(std::mem::take(&mut folded.judged)) {
                let draft = match judged {
                    // From memory: true whatever has happened since, and whatever becomes of this commit.
                    Judged::Answered(draft) if draft.certainty == Certainty::Fact => {
                        self.compare(&asked.1, Draft::Answer(draft), None);
                        continue;
                    }
                    Judged::Later => {
                        again.push_back(asked.clone());
                        later.push_back(asked);
                        continue;
                    }
                    Judged::Answered(draft) => Draft::Answer(draft),
                    Judged::Unlawful(why) => Draft::Unlawful(why),
                    Judged::Unfit { field, .. } => Draft::Error(field),
                    Judged::Limit { what, .. } => panic!("{what}"),
                    Judged::Unleased => panic!("every request brings a lease here"),
                };
                drafts.push(draft);
                part_of_it.push(asked.clone());
                again.push_back(asked);
            }
            self.sidecars[sidecar].waiting = again;
            let writes = folded.write.is_some();
            let law = self.sidecars[sidecar].law.clone();
            let plain = || part_of_it.iter().map(|(_, plain)| plain.clone());
            if let (Fate::OnItsWay, true) = (fate, writes) {
                self.on_the_way.push((folded, law, plain().collect()));
                return;
            }
            if folded.lawful && !self.is_in_force(&law) {
                self.sidecars[sidecar].law = self.law.clone();
                continue;
            }
            let Ok(committed) = self.play.apply(&folded) else {
                self.look(sidecar, &folded);
                continue;
            };
            if let (Fate::ReplyLost, true) = (fate, writes) {
                for plain in plain() {
                    self.judge(&plain, committed);
                }
                return;
            }
            for ((_, plain), draft) in part_of_it.iter().zip(drafts) {
                self.compare(plain, draft, committed);
            }
            self.unheard.extend(part_of_it);
            while self.unheard.len() > 4 {
                self.unheard.pop_front();
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

    pub(super) fn step(&mut self, step: &Step) {
        match step {
            Step::Fold {
                sidecar,
                wishes,
                fate,
            } => {
                for wish in wishes {
                    let asked = self.asked(wish);
                    self.sidecars[*sidecar].waiting.extend(asked);
                }
                self.fold(*sidecar, *fate);
            }
            Step::Expire => {
                self.play.expire();
                self.model.expire();
            }
            Step::Arrive => self.arrive(),
            Step::Restart { sidecar } => {
                // What it had sent may still arrive; what it knew is gone, and its callers ask once more elsewhere.
                let sidecar = &mut self.sidecars[*sidecar];
                self.unheard.extend(std::mem::take(&mut sidecar.waiting));
                sidecar.known = Standing::default();
            }
            Step::Switch(revised) => self.switch(revised),
        }
    }

    /// A later version is put in force, if it may follow. No sidecar hears of it.
    fn switch(&mut self, revised: &Revised) {
        let (next, states, events) = self.model.machine.next(revised);
        if let Some(filed) = file(&next, Some(&self.filed)) {
            self.law = law_of(&filed);
            self.filed = filed;
            self.model.switch(next, &states, &events);
        }
    }

    /// A commit arrives late: it holds or falls as a whole.
    fn arrive(&mut self) {
        let Some((folded, law, plain)) = self.on_the_way.pop() else {
            return;
        };
        if folded.lawful && !self.is_in_force(&law) {
            return;
        }
        if let Ok(committed) = self.play.apply(&folded) {
            for plain in &plain {
                self.judge(plain, committed);
            }
        }
    }

    /// Everything arrives, everybody is answered, and all that is known is compared.
    pub(super) fn finish(&mut self) {
        while !self.on_the_way.is_empty() {
            self.arrive();
        }
        for sidecar in [0, 1] {
            while !self.sidecars[sidecar].waiting.is_empty() {
                self.fold(sidecar, Fate::Answered);
            }
        }
        let record = self.play.record.as_ref().map(|(record, _)| record);
        let open = record.into_iter().flat_map(|record| &record.open);
        let open = open.map(|open| {
            let (id, claim) = (number(&open.intent.operation), &open.claim);
            (id, claim.returned, claim.attempts)
        });
        assert_eq!(open.collect::<Vec<_>>(), self.model.unfinished());
        let inline = record.into_iter().flat_map(|record| &record.operations);
        let stored = inline.chain(self.play.apart.values());
        let stored: BTreeMap<_, _> = stored
            .map(|done| (number(&done.id), done.verdict == Verdict::Applied))
            .collect();
        let finished: BTreeMap<_, _> = self.model.finished().into_iter().collect();
        assert_eq!(stored, finished);
    }
}

fn word(why: &Unlawful) -> &'static str {
    match why {
        Unlawful::Field { field, .. } if field.starts_with("intent.identity") => "intent.identity",
        Unlawful::Field { field, .. } if field == "outcome_event" => "outcome_event",
        Unlawful::NoEvent { .. } => "no event",
        other => panic!("{other:?}"),
    }
}
