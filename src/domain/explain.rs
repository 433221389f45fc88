//! The story of a resource, in sentences for people.
//!
//! Everything told here follows from what is stored and from the law in force; nothing is judged anew but by the judgement
//! itself, which is asked what a repetition would be answered. Values of contents and results are never told; of identity
//! values only those in force, which Inspect shows too. Texts that came from outside stand in quotes, escaped.

mod asked;
mod claims;
mod events;
mod incidents;
mod operations;
mod queue;
mod rounds;
mod standing;
mod words;

use super::decision::{Decision, IncidentId, Snapshot};
use super::ids::{OperationId, ResourceId};
use super::incident::Incident;
use super::judge::{Answer, Ask, Fold, Judged, Law, Look, LookedInto, OperationState, Standing};
use super::record::Operation;
use super::request::Lookup;
use super::retention::When;
use super::token::Timeline;
use super::waiter::WhoWaits;

pub use incidents::incident_ids;

/// Most operations that a story tells of beside the one that was asked about: the newest.
pub const OPERATIONS_TOLD_MAX: usize = 32;
/// Most incidents that a story tells of: those about the operation that was asked about come first, then those about the newest.
pub const INCIDENTS_TOLD_MAX: usize = 16;
/// Most names of one kind in a sentence.
pub const NAMES_TOLD_MAX: usize = 32;

/// What a sentence is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// The state, and how it was reached.
    State,
    /// Identity values.
    Identity,
    /// Who holds it or held it.
    Round,
    /// Fencing tokens.
    Token,
    /// Who waits for it.
    Queue,
    /// A finished operation.
    Operation,
    /// An operation that was claimed and is not finished.
    Claim,
    /// What a person must judge or has judged.
    Incident,
    /// Which events are allowed now.
    Event,
    /// Why the operation that was asked about was answered as it was.
    Answer,
    /// What to do next.
    Next,
}

/// One sentence, or a few that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// What it is about.
    pub topic: Topic,
    /// In words.
    pub text: String,
}

/// All that a story is told from, read at one moment as far as it can change.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// Of which resource.
    pub resource: ResourceId,
    /// The timeline in force.
    pub timeline: Timeline,
    /// When it was asked.
    pub when: When,
    /// The record, the reservation key, and the operation that is asked about, if it has a key of its own.
    pub standing: Standing,
    /// What its kind is judged by.
    pub law: Law,
    /// Operations found in keys of their own, the newest of those looked at.
    pub apart: Vec<Operation>,
    /// How many of those keys were looked at.
    pub apart_looked_at: u64,
    /// Incidents about the operations told of.
    pub incidents: Vec<Incident>,
    /// How many more there are of those.
    pub more_incidents: usize,
    /// Who waits for it.
    pub waiting: WhoWaits,
    /// The operation that is asked about.
    pub asked: Option<OperationId>,
}

/// A resource's story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// The resource as it stands.
    pub snapshot: Snapshot,
    /// Who waits for it.
    pub waiting: WhoWaits,
    /// Its story, from what it is now to what to do.
    pub sentences: Vec<Sentence>,
    /// Whether anything is known of what was asked about: of the operation if one was named, else of the resource. Who waits for it is
    /// something, too.
    pub known: bool,
}

/// The sentences so far, and what they are told from.
struct Telling<'g> {
    gathered: &'g Gathered,
    look: Look,
    asked: Option<(OperationId, OperationState, Option<Decision>)>,
    sentences: Vec<Sentence>,
}

impl Gathered {
    /// The operations that are told of, oldest first, and how many there are beside them.
    pub fn told(&self) -> (Vec<Operation>, u64) {
        let inline = self.standing.inline();
        let mut all: Vec<&Operation> = inline.iter().collect();
        // One that moved out while this was read is told once.
        let apart = self.apart.iter();
        all.extend(apart.filter(|one| inline.iter().all(|other| other.id != one.id)));
        all.sort_by_key(|operation| operation.time_ms);
        let first = all.len().saturating_sub(OPERATIONS_TOLD_MAX);
        let told: Vec<Operation> = all.drain(first..).cloned().collect();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let there = count(inline.len()).saturating_add(self.standing.spilled());
        let beside = there.saturating_sub(count(told.len()));
        (told, beside)
    }

    fn fold(&self) -> Fold<'_> {
        let fold = Fold::begin(&self.resource, &self.standing, self.timeline, self.when);
        fold.under(&self.law)
    }

    /// What a repetition of the operation that is asked about would be answered.
    fn looked_up(&self) -> Option<(OperationId, OperationState, Option<Decision>)> {
        let id = self.asked.clone()?;
        let ask = Ask::Lookup(Lookup::from(id.clone()));
        match self.fold().judge(&ask) {
            Judged::Answered(draft) => match draft.finish(None) {
                Answer::Known(state, decision) => Some((id, state, decision)),
                other @ (Answer::Judged(_)
                | Answer::Ended(..)
                | Answer::Held(..)
                | Answer::Snapshot(_)
                | Answer::Swept) => {
                    unreachable!("a lookup is answered by what is known, not by {other:?}")
                }
            },
            other @ (Judged::Later
            | Judged::Unleased
            | Judged::Unlawful(_)
            | Judged::Unfit { .. }
            | Judged::Limit { .. }) => {
                unreachable!("a lookup, alone, is answered, and not by {other:?}")
            }
        }
    }
}

/// Tells the story of a resource.
pub fn explain(gathered: &Gathered) -> Story {
    let mut telling = Telling {
        gathered,
        look: gathered.fold().look(),
        asked: gathered.looked_up(),
        sentences: Vec::new(),
    };
    let written = telling.look.snapshot.revision.is_some();
    let known = match &telling.asked {
        Some((id, state, _)) => {
            let given_back = telling.open(id).is_some();
            let found = telling.incidents_of(id).next().is_some();
            let mut waiting = gathered.waiting.first.iter();
            let waited_for = waiting.any(|waiter| waiter.operation.as_ref() == Some(id));
            *state != OperationState::NeverSeen || given_back || found || waited_for
        }
        None => written || gathered.waiting.calls > 0,
    };
    telling.standing();
    if written {
        telling.identity();
        telling.rounds();
    }
    telling.queue();
    telling.operations();
    telling.claims();
    telling.incidents();
    telling.events();
    telling.waiting();
    telling.answer();
    telling.next();
    Story {
        snapshot: telling.look.snapshot,
        waiting: gathered.waiting.clone(),
        sentences: telling.sentences,
        known,
    }
}

impl<'g> Telling<'g> {
    fn say(&mut self, topic: Topic, text: impl Into<String>) {
        let text = text.into();
        self.sentences.push(Sentence { topic, text });
    }

    /// An operation that was claimed and is not finished.
    fn open(&self, id: &OperationId) -> Option<&LookedInto> {
        let mut open = self.look.open.iter();
        open.find(|open| open.operation.intent.operation == *id)
    }

    fn incidents_of(
        &self,
        operation: &OperationId,
    ) -> impl Iterator<Item = &'g Incident> + use<'g> {
        let operation = operation.clone();
        let all = self.gathered.incidents.iter();
        all.filter(move |incident| incident.operation.as_ref() == Some(&operation))
    }

    /// Incidents that wait for a person: of the operation that is asked about, or all that are told of.
    fn open_incidents(&self) -> Vec<&'g IncidentId> {
        let asked = self.gathered.asked.as_ref();
        let all = self.gathered.incidents.iter();
        all.filter(|incident| asked.is_none_or(|id| incident.operation.as_ref() == Some(id)))
            .filter(|incident| incident.is_open())
            .map(|incident| &incident.id)
            .collect()
    }
}
