//! Judging by a machine against a model that is written to be read: it keeps the whole history and asks it plainly.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::machine_sketch::{NAMES, file, sketch};
use super::message::{Message, happens};
use super::play::Play;
use crate::domain::decision::Verdict;
use crate::domain::judge::Law;
use crate::domain::machine::{Definition, Effect, Event, InForce, Lineage, Machine};

type Values = BTreeMap<String, String>;

/// One move that was made.
#[derive(Clone, Debug)]
struct Step {
    from: Option<String>,
    to: String,
    /// What was in force afterwards.
    values: Values,
}

/// One resource, and everything that ever happened to it.
#[derive(Debug)]
struct Model {
    machine: Machine,
    state: Option<String>,
    values: Values,
    /// Every value that was ever in force.
    ever: BTreeSet<(String, String)>,
    history: Vec<Step>,
    finished: BTreeMap<String, (String, String, Verdict)>,
}

fn names<'a, N: ToString + 'a>(
    names: impl IntoIterator<Item = &'a crate::domain::machine::At<N>>,
) -> Vec<String> {
    names
        .into_iter()
        .map(|name| name.value.to_string())
        .collect()
}

impl Model {
    fn definition(&self) -> &Definition {
        self.machine.definition()
    }

    /// Whether a resource in `here` can come to one of `there` by one move or more.
    fn leads(&self, here: Option<&str>, there: &[String]) -> bool {
        let mut seen: BTreeSet<String> = BTreeSet::new();
        let next = |state: Option<&str>| -> Vec<String> {
            let events = self.definition().events.iter();
            let steps = events.filter_map(|event| match (&event.effect, state) {
                (Effect::Creates(to), None) => Some(to.value.to_string()),
                (Effect::Moves { from, to }, Some(state)) => names(from)
                    .contains(&state.to_owned())
                    .then(|| to.value.to_string()),
                _ => None,
            });
            steps.collect()
        };
        let mut open = next(here);
        while let Some(state) = open.pop() {
            if there.contains(&state) {
                return true;
            }
            if seen.insert(state.clone()) {
                open.extend(next(Some(&state)));
            }
        }
        false
    }

    fn judge(&mut self, id: &str, event: &str, content: &str, given: &Values) -> Verdict {
        if let Some((first_event, first_content, verdict)) = self.finished.get(id) {
            return if first_content != content || first_event != event {
                Verdict::Conflict
            } else if *verdict == Verdict::Applied {
                Verdict::Replayed
            } else {
                *verdict
            };
        }
        let found = self.definition().events.iter();
        let found = found.clone().find(|e| e.name.value.as_str() == event);
        let found = found.unwrap().clone();
        let verdict = self.fresh(&found, given);
        if verdict == Verdict::Applied {
            self.apply(&found, given);
        }
        if verdict != Verdict::TooEarly {
            let entry = (event.to_owned(), content.to_owned(), verdict);
            self.finished.insert(id.to_owned(), entry);
        }
        verdict
    }

    fn fresh(&self, event: &Event, given: &Values) -> Verdict {
        let sets = names(&event.sets);
        let here = self.state.as_deref();
        // Identity first.
        let mut early = false;
        let mut never = false;
        for (name, value) in given.iter().filter(|(name, _)| !sets.contains(name)) {
            if self.values.get(name) == Some(value) {
                continue;
            }
            if self.ever.contains(&(name.clone(), value.clone())) {
                return Verdict::OtherRound;
            }
            let mut setters = self.definition().events.iter();
            let can = setters.any(|other| {
                let from = names(other.from());
                names(&other.sets).contains(name)
                    && match (here, &other.effect) {
                        (None, Effect::Creates(_)) => true,
                        (Some(here), _) if from.contains(&here.to_owned()) => true,
                        _ => self.leads(here, &from),
                    }
            });
            if can {
                early = true;
            } else {
                never = true;
            }
        }
        if never {
            return Verdict::Rejected;
        }
        if early {
            return Verdict::TooEarly;
        }
        // Then the state.
        let from = names(event.from());
        let creates = matches!(event.effect, Effect::Creates(_));
        let allowed = match here {
            None => creates,
            Some(here) => from.contains(&here.to_owned()),
        };
        if allowed {
            return Verdict::Applied;
        }
        if let Some(here) = here {
            let mut said = event.otherwise.iter();
            let said = said.find(|(state, _)| state.value.as_str() == here);
            if let Some((_, said)) = said {
                use crate::domain::machine::Otherwise;
                return match said {
                    Otherwise::Reject => Verdict::Rejected,
                    Otherwise::Supersede => Verdict::Superseded,
                    Otherwise::TooEarly => Verdict::TooEarly,
                };
            }
        }
        if here.is_some() && self.done_before(event, &from, given) {
            Verdict::Superseded
        } else if self.leads(here, &from) {
            Verdict::TooEarly
        } else {
            Verdict::Rejected
        }
    }

    /// Whether the target was last entered when or after a start was last left, under the values given.
    fn done_before(&self, event: &Event, from: &[String], given: &Values) -> bool {
        let left = self.history.iter().rposition(|step| match &step.from {
            None => matches!(event.effect, Effect::Creates(_)),
            Some(state) => from.contains(state),
        });
        let Some(left) = left else {
            return false;
        };
        match event.to() {
            Some(to) => {
                let entered = |step: &Step| step.to == to.value.as_str();
                let entered = self.history.iter().rposition(entered);
                entered.is_some_and(|at| {
                    let values = &self.history[at].values;
                    at >= left
                        && given
                            .iter()
                            .all(|(name, value)| values.get(name) == Some(value))
                })
            }
            None => {
                let sets = names(&event.sets);
                let once = |name: &String| self.ever.contains(&(name.clone(), given[name].clone()));
                !sets.is_empty() && sets.iter().all(once)
            }
        }
    }

    fn apply(&mut self, event: &Event, given: &Values) {
        for name in names(&event.sets) {
            let value = given[&name].clone();
            self.ever.insert((name.clone(), value.clone()));
            self.values.insert(name, value);
        }
        for name in names(&event.clears) {
            self.values.remove(&name);
        }
        if let Some(to) = event.to() {
            let to = to.value.to_string();
            self.history.push(Step {
                from: self.state.replace(to.clone()),
                to,
                values: self.values.clone(),
            });
        }
    }

    /// Another version is in force, in which a state has another name.
    fn renamed(&mut self, machine: Machine, old: &str, new: &str) {
        let rename = |state: &mut String| {
            if state == old {
                new.clone_into(state);
            }
        };
        self.state.iter_mut().for_each(rename);
        for step in &mut self.history {
            step.from.iter_mut().for_each(rename);
            rename(&mut step.to);
        }
        self.machine = machine;
    }
}

#[derive(Clone, Debug)]
enum Delivery {
    /// Operation, event, other content, values of the two names, and whether what the event does not need is given, too.
    Message(usize, usize, bool, [usize; 2], [bool; 2]),
    /// A message that came before comes again.
    Again(usize),
    /// The answer is lost, and the very same request is sent once more.
    Lost(usize, usize, [usize; 2]),
    /// A second version is put in force.
    Switch,
}

fn deliveries() -> impl Strategy<Value = Delivery> {
    let values = || [0..3_usize, 0..3_usize];
    prop_oneof![
        12 => (0..40_usize, 0..9_usize, prop::bool::weighted(0.1), values(), [prop::bool::weighted(0.1), prop::bool::weighted(0.1)])
            .prop_map(|(id, event, other, values, extra)| Delivery::Message(id, event, other, values, extra)),
        3 => (0..60_usize).prop_map(Delivery::Again),
        2 => (0..40_usize, 0..9_usize, values()).prop_map(|(id, event, values)| Delivery::Lost(id, event, values)),
        1 => Just(Delivery::Switch),
    ]
}

/// The file in force, after those before it were.
fn in_force(machine: &Machine, lineage: Lineage) -> (Law, Lineage) {
    let lineage = lineage.followed_by(machine);
    let law = InForce::new(machine.clone(), lineage.clone());
    (Law::Machine(Arc::new(law)), lineage)
}

fn message(
    model: &Model,
    id: usize,
    event: usize,
    other: bool,
    values: [usize; 2],
    extra: [bool; 2],
) -> (Message, Values) {
    let events = &model.definition().events;
    let event = &events[event % events.len()];
    let mut message = happens(&format!("op{id}"), event.name.value.as_str());
    let mut given = Values::new();
    for (at, name) in NAMES.iter().enumerate() {
        let needed = names(event.matches.iter().chain(&event.sets));
        if needed.contains(&(*name).to_owned()) || extra[at] {
            let value = format!("v{}", values[at]);
            message = message.of(name, &value);
            given.insert((*name).to_owned(), value);
        }
    }
    if other {
        message = message.content("another");
    }
    (message, given)
}

fn judged_alike(
    play: &mut Play,
    model: &mut Model,
    message: &Message,
    given: &Values,
    lost: bool,
) -> Result<(), TestCaseError> {
    let event = message.event.as_ref().unwrap().as_str();
    let id = message.operation.as_str();
    let new = !model.finished.contains_key(id);
    let wanted = model.judge(id, event, &message.content, given);
    let ask = play.message(message);
    if lost {
        play.lose(&ask);
    }
    // A request that is sent again after its answer was lost gets the first answer.
    let answer = play.ask(ask);
    let decision = answer.decision();
    prop_assert_eq!(decision.verdict, wanted, "{:?}: {:?}", message, decision);
    if lost && new && wanted == Verdict::Applied {
        prop_assert_eq!(decision.first_time_ms, None);
    }
    let state = play
        .record
        .as_ref()
        .and_then(|(record, _)| record.state.clone());
    let state = state.map(|state| state.to_string());
    // A record speaks in the names of the version that last wrote it.
    let same = state == model.state || state.as_deref() == Some("s1");
    prop_assert!(same, "{:?} instead of {:?}", state, model.state);
    let stored = play.incidents.len();
    prop_assert!(stored <= model.finished.len() * 2, "{stored} incidents");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_judge_agrees_with_a_model_that_keeps_the_whole_history(
        sketches in prop::collection::vec(sketch(), 0..5),
        deliveries in prop::collection::vec(deliveries(), 1..60),
    ) {
        let text = file(&sketches, 1, false);
        let reading = Machine::read(text.as_bytes());
        // What lint refuses is no machine.
        prop_assume!(reading.machine.is_some());
        let machine = reading.machine.unwrap();
        let next = Machine::read(file(&sketches, 2, true).as_bytes()).machine.unwrap();
        let (law, lineage) = in_force(&machine, Lineage::default());
        let mut play = Play::new();
        play.law = law;
        let mut model = Model {
            machine,
            state: None,
            values: Values::new(),
            ever: BTreeSet::new(),
            history: Vec::new(),
            finished: BTreeMap::new(),
        };
        let mut sent: Vec<(Message, Values)> = Vec::new();
        let mut switched = false;
        for delivery in deliveries {
            let (message, given, lost) = match delivery {
                Delivery::Message(id, event, other, values, extra) => {
                    let (message, given) = message(&model, id, event, other, values, extra);
                    (message, given, false)
                }
                Delivery::Lost(id, event, values) => {
                    let (message, given) = message(&model, id, event, false, values, [false; 2]);
                    (message, given, true)
                }
                Delivery::Again(at) => match sent.get(at % sent.len().max(1)) {
                    Some((message, given)) => (message.clone(), given.clone(), false),
                    None => continue,
                },
                Delivery::Switch => {
                    if !std::mem::replace(&mut switched, true) {
                        play.law = in_force(&next, lineage.clone()).0;
                        model.renamed(next.clone(), "s1", "t1");
                    }
                    continue;
                }
            };
            judged_alike(&mut play, &mut model, &message, &given, lost)?;
            sent.push((message, given));
        }
    }
}
