//! What should be said of messages and claims under machines, written for reading: one request after another, with everything
//! that ever happened at hand. It shares nothing with the judge but names and the words of its answers.

use std::collections::{BTreeMap, BTreeSet};

use super::sketch::{Counts, Event, NAMES, Sketch};
use crate::domain::decision::{Advice, Rule, Verdict};
use crate::domain::ids::Nonce;
use crate::domain::outcome::StoredResult;

mod claims;
mod law;
mod repeating;
mod resolving;
mod rounds;

use self::claims::Open;
pub(super) use self::resolving::Resolving;
use self::rounds::Round;

/// Values by the number of their name.
pub(super) type Values = BTreeMap<usize, String>;

/// What a request is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Told(Told),
    /// An error; the word names the kind of it, or the field.
    Error(&'static str),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) verdict: Verdict,
    pub(super) rule: Rule,
    pub(super) advice: Advice,
    pub(super) result: Option<StoredResult>,
    /// Whether a person hears of it; `None`: not claimed here.
    pub(super) alerts: Option<bool>,
}

fn told(verdict: Verdict, rule: Rule) -> Told {
    let advice = match verdict {
        Verdict::Granted => Advice::Proceed,
        Verdict::Applied | Verdict::Replayed | Verdict::Superseded | Verdict::OtherRound => {
            Advice::Acknowledge
        }
        Verdict::Busy | Verdict::InProgress | Verdict::Interrupted | Verdict::TooEarly => {
            Advice::Retry
        }
        Verdict::Conflict | Verdict::Rejected | Verdict::Expired => Advice::Refuse,
        Verdict::Fenced => Advice::Abandon,
    };
    Told {
        verdict,
        rule,
        advice,
        result: None,
        alerts: None,
    }
}

impl Told {
    fn settled_if(mut self, keeps_retrying: bool) -> Self {
        if keeps_retrying {
            self.advice = Advice::Acknowledge;
        }
        self
    }

    fn alerting(mut self, alerts: bool) -> Self {
        self.alerts = Some(alerts);
        self
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Letter {
    pub(super) id: u8,
    pub(super) event: String,
    pub(super) content: [u8; 2],
    pub(super) values: Values,
    /// Older than anything is remembered.
    pub(super) old: bool,
}

/// What comes with a message, or with the result of an effect alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Beside {
    pub(super) under: Option<Nonce>,
    pub(super) result: Option<StoredResult>,
    pub(super) ends: Option<bool>,
    pub(super) outcome: Option<String>,
}

impl Beside {
    fn says_something(&self) -> bool {
        self.result.as_ref().is_some_and(|said| !said.is_empty())
    }
}

/// One move that was made.
#[derive(Clone, Debug)]
struct Step {
    from: Option<usize>,
    to: usize,
    /// What was in force afterwards.
    values: Values,
}

/// What was decided for good.
#[derive(Clone, Debug)]
struct Done {
    event: Named,
    counted: Vec<u8>,
    counts: Counts,
    by: Nonce,
    round: Option<Nonce>,
    first: Told,
    keeps_retrying: bool,
    /// What it turned out to be, if not its event.
    outcome: Option<Named>,
}

/// An event that was judged: its number since, unless nothing stands for it any more, and all names that ever stood for it since.
#[derive(Clone, Debug)]
struct Named {
    now: Option<usize>,
    names: BTreeSet<String>,
}

impl Named {
    fn learn(&mut self, all: &BTreeMap<String, Option<usize>>) {
        let names = all
            .iter()
            .filter(|(_, at)| at.is_some() && **at == self.now);
        self.names.extend(names.map(|(name, _)| name.clone()));
    }

    fn is(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}

/// One resource, and everything that ever happened to it.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) machine: Sketch,
    /// What each name of an event stands for now, and of a state.
    events_named: BTreeMap<String, Option<usize>>,
    states_named: BTreeMap<String, usize>,
    history: Vec<Step>,
    values: Values,
    /// Every value that was ever in force.
    ever: BTreeSet<(usize, String)>,
    rounds: Vec<Round>,
    /// Rounds of which it is forgotten what they claimed.
    forgotten: BTreeSet<Nonce>,
    done: BTreeMap<u8, Done>,
    open: Vec<Open>,
}

/// What of a content counts.
fn counted(content: [u8; 2], counts: Counts) -> Vec<u8> {
    match counts {
        Counts::All => content.to_vec(),
        Counts::OnlyX => vec![content[0]],
        Counts::AllButX => vec![content[1]],
        Counts::Nothing => Vec::new(),
    }
}

impl Model {
    pub(super) fn new(machine: Sketch) -> Self {
        let mut model = Self {
            machine,
            events_named: BTreeMap::new(),
            states_named: BTreeMap::new(),
            history: Vec::new(),
            values: Values::new(),
            ever: BTreeSet::new(),
            rounds: Vec::new(),
            forgotten: BTreeSet::new(),
            done: BTreeMap::new(),
            open: Vec::new(),
        };
        model.learn_names();
        model
    }

    fn learn_names(&mut self) {
        for (at, event) in self.machine.events.iter().enumerate() {
            if let Some(event) = event {
                self.events_named.insert(event.name.clone(), Some(at));
            }
        }
        for (at, state) in self.machine.states.iter().enumerate() {
            if let Some(state) = state {
                self.states_named.insert(state.clone(), at);
            }
        }
    }

    /// A later version is in force; where each state and event is now.
    pub(super) fn switch(&mut self, next: Sketch, states: &[usize], events: &[Option<usize>]) {
        let lead = |now: Option<usize>| now.and_then(|at| events[at]);
        for now in self.events_named.values_mut() {
            *now = lead(*now);
        }
        self.states_named
            .values_mut()
            .for_each(|at| *at = states[*at]);
        for step in &mut self.history {
            step.from = step.from.map(|from| states[from]);
            step.to = states[step.to];
        }
        for open in &mut self.open {
            open.to = open.to.map(|to| states[to]);
            open.from = open.from.iter().map(|from| states[*from]).collect();
        }
        self.machine = next;
        self.learn_names();
        let done = self.done.values_mut();
        let all = done.flat_map(|done| [Some(&mut done.event), done.outcome.as_mut()]);
        let open = self.open.iter_mut().map(|open| &mut open.event);
        for event in all.flatten().chain(open) {
            event.now = lead(event.now);
            event.learn(&self.events_named);
        }
    }

    pub(super) fn state(&self) -> Option<usize> {
        self.history.last().map(|step| step.to)
    }

    /// The state that a name stands for.
    pub(super) fn state_named(&self, name: &str) -> usize {
        self.states_named[name]
    }

    pub(super) fn values(&self) -> Vec<(String, String)> {
        let values = self.values.iter();
        let values = values.map(|(name, value)| (NAMES[*name].to_owned(), value.clone()));
        values.collect()
    }

    fn event_named(&self, name: &str) -> Option<(usize, &Event)> {
        let at = (*self.events_named.get(name)?)?;
        Some((at, self.machine.event(at)?))
    }

    fn judged_as(&self, at: usize) -> Named {
        let mut event = Named {
            now: Some(at),
            names: BTreeSet::new(),
        };
        event.learn(&self.events_named);
        event
    }

    /// A message that asks for no claim.
    pub(super) fn send(&mut self, letter: &Letter, beside: &Beside, nonce: Nonce) -> Said {
        if let Some(done) = self.done.get(&letter.id).cloned() {
            return Said::Told(self.again(Some(letter), beside, nonce, &done));
        }
        if let Some(said) = self.sent_of_open(letter, beside, nonce) {
            return said;
        }
        if beside.outcome.is_some() {
            return Said::Error("outcome_event");
        }
        if letter.old {
            return Said::Told(self.too_old(letter));
        }
        let (at, event) = match self.fits(letter) {
            Ok((at, event)) => (at, event.clone()),
            Err(error) => return error,
        };
        match (beside.under, self.live()) {
            (Some(round), _) if !self.is_live(round) => {
                let over = told(Verdict::Fenced, self.end_of(round));
                return Said::Told(over.alerting(beside.says_something()));
            }
            (None, Some(_)) if !event.while_held => {
                return Said::Told(self.held(&event));
            }
            _ => {}
        }
        if let Some(waits) = self.waits(letter.id, changes(&event)) {
            return Said::Told(waits);
        }
        let first = match self.allowed(&event, &letter.values) {
            Ok(()) => {
                self.apply(event.to(), &event.sets, &event.clears, &letter.values);
                Told {
                    result: Some(beside.result.clone().unwrap_or_default()),
                    ..told(Verdict::Applied, Rule::Moved)
                }
            }
            Err((verdict, rule)) => self.refusal(letter, &event, verdict, rule, beside),
        };
        self.note(letter, at, &event, nonce, beside.under, &first);
        if beside.ends == Some(true) && beside.under.is_some() && first.verdict == Verdict::Applied
        {
            self.end(nonce, false);
        }
        Said::Told(first)
    }

    /// Refused unjudged; whoever would send it again for ever is told that the matter is settled.
    pub(super) fn too_old(&self, letter: &Letter) -> Told {
        let event = self.event_named(&letter.event);
        let settled = event.is_some_and(|(_, event)| event.keeps_retrying);
        let too_old = told(Verdict::Expired, Rule::TooOld);
        too_old.settled_if(settled).alerting(true)
    }

    /// The resource is held by another.
    fn held(&self, event: &Event) -> Told {
        let mut busy = told(Verdict::Busy, Rule::Held);
        if event.origin == "user" {
            busy.advice = Advice::Refuse;
        }
        busy
    }

    /// Whether the machine can judge it at all.
    fn fits(&self, letter: &Letter) -> Result<(usize, &Event), Said> {
        let Some((at, event)) = self.event_named(&letter.event) else {
            return Err(Said::Error("no event"));
        };
        let needed = event.matches.union(&event.sets);
        if needed
            .into_iter()
            .any(|name| !letter.values.contains_key(name))
        {
            return Err(Said::Error("intent.identity"));
        }
        let known = |name: &usize| {
            let mut events = self.machine.events.iter().flatten();
            events.any(|event| event.sets.contains(name))
        };
        if !letter.values.keys().all(known) {
            return Err(Said::Error("intent.identity"));
        }
        Ok((at, event))
    }

    /// A "no", and whether a person hears of it.
    fn refusal(
        &self,
        letter: &Letter,
        event: &Event,
        verdict: Verdict,
        rule: Rule,
        beside: &Beside,
    ) -> Told {
        let said = match verdict {
            Verdict::Superseded => event.second_key_alerts && event.origin != "timer",
            Verdict::OtherRound => event.other_round_alerts,
            Verdict::Rejected => event.origin != "timer" && event.origin != "user",
            _ => return told(verdict, rule),
        };
        // An attempt may have had its effect.
        let died = self.open(letter.id).is_some_and(|open| !open.returned);
        let alerts = said || died || beside.says_something();
        let settled = verdict == Verdict::Rejected && event.keeps_retrying;
        told(verdict, rule).settled_if(settled).alerting(alerts)
    }

    /// Whatever is decided for good is remembered.
    fn note(
        &mut self,
        letter: &Letter,
        at: usize,
        event: &Event,
        by: Nonce,
        round: Option<Nonce>,
        first: &Told,
    ) {
        if first.verdict == Verdict::TooEarly {
            return;
        }
        let done = Done {
            event: self.judged_as(at),
            counted: counted(letter.content, event.counts),
            counts: event.counts,
            by,
            round,
            first: first.clone(),
            keeps_retrying: event.keeps_retrying,
            outcome: None,
        };
        self.done.insert(letter.id, done);
        self.close(letter.id);
    }
}

/// Whether an event changes the resource, so that no two such may be under way at once.
fn changes(event: &Event) -> bool {
    event.to().is_some() || !event.sets.is_empty() || !event.clears.is_empty()
}
