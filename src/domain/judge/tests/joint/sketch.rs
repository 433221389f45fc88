//! Machines at random, in numbers: what the model judges by, and the file that the judge reads. States and events keep their
//! numbers through all versions, whatever their names become.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

mod file;

/// The identity names that there are.
pub(super) const NAMES: [&str; 2] = ["a", "b"];
/// Most states of a machine.
const SKETCHED_STATES_MAX: usize = 6;
/// Most events of a machine.
const SKETCHED_EVENTS_MAX: usize = 14;

/// What an event does to the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Does {
    Creates(usize),
    Moves(BTreeSet<usize>, usize),
    Stays(BTreeSet<usize>),
}

/// What the file says instead of what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Otherwise {
    Reject,
    Supersede,
    TooEarly,
}

/// What of the contents `{"x": …, "y": …}` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counts {
    All,
    OnlyX,
    AllButX,
    Nothing,
}

/// An event.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) does: Does,
    pub(super) matches: BTreeSet<usize>,
    pub(super) sets: BTreeSet<usize>,
    pub(super) clears: BTreeSet<usize>,
    pub(super) otherwise: BTreeMap<usize, Otherwise>,
    pub(super) reruns: bool,
    pub(super) origin: &'static str,
    pub(super) while_held: bool,
    pub(super) second_key_alerts: bool,
    pub(super) other_round_alerts: bool,
    pub(super) keeps_retrying: bool,
    pub(super) counts: Counts,
}

impl Event {
    pub(super) fn from(&self) -> BTreeSet<usize> {
        match &self.does {
            Does::Creates(_) => BTreeSet::new(),
            Does::Moves(from, _) | Does::Stays(from) => from.clone(),
        }
    }

    pub(super) fn to(&self) -> Option<usize> {
        match &self.does {
            Does::Creates(to) | Does::Moves(_, to) => Some(*to),
            Does::Stays(_) => None,
        }
    }

    pub(super) fn creates(&self) -> bool {
        matches!(self.does, Does::Creates(_))
    }
}

/// A machine.
#[derive(Clone, Debug)]
pub(super) struct Sketch {
    pub(super) version: u32,
    /// The name of each state; `None`: it was merged into another.
    pub(super) states: Vec<Option<String>>,
    /// `None`: it was dropped.
    pub(super) events: Vec<Option<Event>>,
    /// What this version says of the names before.
    map_states: Vec<(String, String)>,
    map_events: Vec<(String, Option<String>)>,
}

/// The words of an event that decide nothing about the graph.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manners {
    reruns: u8,
    origin: u8,
    while_held: bool,
    second_key: bool,
    other_round: bool,
    keeps_retrying: bool,
    counts: u8,
    otherwise: Option<(usize, u8)>,
}

fn manners() -> impl Strategy<Value = Manners> {
    (
        0..3_u8,
        0..6_u8,
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        prop::bool::weighted(0.3),
        0..6_u8,
        prop::option::weighted(0.25, (0..SKETCHED_STATES_MAX, 0..3_u8)),
    )
        .prop_map(
            |(
                reruns,
                origin,
                while_held,
                second_key,
                other_round,
                keeps_retrying,
                counts,
                otherwise,
            )| {
                Manners {
                    reruns,
                    origin,
                    while_held,
                    second_key,
                    other_round,
                    keeps_retrying,
                    counts,
                    otherwise,
                }
            },
        )
}

/// What an event may do beyond the way from the first state to the last.
#[derive(Clone, Debug)]
pub(super) struct Extra {
    from: Vec<usize>,
    to: Option<usize>,
    roles: [u8; 2],
}

fn extra() -> impl Strategy<Value = Extra> {
    (
        prop::collection::vec(0..SKETCHED_STATES_MAX, 1..3),
        prop::option::weighted(0.6, 0..SKETCHED_STATES_MAX),
        [0..5_u8, 0..5_u8],
    )
        .prop_map(|(from, to, roles)| Extra { from, to, roles })
}

fn chosen(roles: [u8; 2], wanted: &[u8]) -> BTreeSet<usize> {
    (0..NAMES.len())
        .filter(|name| wanted.contains(&roles[*name]))
        .collect()
}

impl Event {
    fn new(name: String, does: Does, roles: [u8; 2], manners: Manners) -> Self {
        let event = Self {
            name,
            does,
            matches: chosen(roles, &[1, 4]),
            sets: chosen(roles, &[2]),
            clears: chosen(roles, &[3, 4]),
            otherwise: BTreeMap::new(),
            reruns: false,
            origin: "",
            while_held: false,
            second_key_alerts: false,
            other_round_alerts: false,
            keeps_retrying: false,
            counts: Counts::All,
        };
        event.behaving(manners)
    }

    /// The same move, and everything else that the file says of it anew.
    fn behaving(mut self, manners: Manners) -> Self {
        self.reruns = manners.reruns == 1;
        self.origin = ["callback", "callback", "callback", "queue", "timer", "user"]
            [usize::from(manners.origin)];
        let changes = self.to().is_some() || !self.sets.is_empty() || !self.clears.is_empty();
        self.while_held = manners.while_held && !changes;
        self.second_key_alerts = manners.second_key;
        self.other_round_alerts = manners.other_round;
        self.keeps_retrying = manners.keeps_retrying;
        self.counts = match manners.counts {
            0 => Counts::OnlyX,
            1 => Counts::AllButX,
            2 => Counts::Nothing,
            _ => Counts::All,
        };
        let from = self.from();
        let said = manners.otherwise.filter(|(at, _)| !from.contains(at));
        self.otherwise = said
            .map(|(at, said)| {
                let all = [Otherwise::Reject, Otherwise::Supersede, Otherwise::TooEarly];
                (at, all[usize::from(said)])
            })
            .into_iter()
            .collect();
        self
    }
}

/// A first version: a row of states, the last one final, with events that lead along it, and further ones at random.
pub(super) fn sketches() -> impl Strategy<Value = Sketch> {
    (
        2..=SKETCHED_STATES_MAX,
        prop::collection::vec(extra(), 0..6),
        prop::collection::vec(manners(), SKETCHED_EVENTS_MAX),
        any::<bool>(),
        prop::collection::vec(0..5_u8, SKETCHED_STATES_MAX),
    )
        .prop_map(|(count, extras, manners, born_with, roles)| {
            let mut manners = manners.into_iter();
            let mut manners = || manners.next().unwrap();
            let mut events = vec![
                Event::new(
                    "make".to_owned(),
                    Does::Creates(0),
                    [if born_with { 2 } else { 0 }, 0],
                    manners(),
                ),
                Event::new(
                    "set".to_owned(),
                    Does::Stays((0..count - 1).collect()),
                    [if born_with { 0 } else { 2 }, 2],
                    manners(),
                ),
            ];
            for (at, role) in roles.into_iter().enumerate().take(count - 1) {
                // Some of the way asks for the first name.
                let matches = u8::from(role == 1);
                let does = Does::Moves([at].into(), at + 1);
                events.push(Event::new(format!("go{at}"), does, [matches, 0], manners()));
            }
            for (at, extra) in extras.into_iter().enumerate() {
                let from: BTreeSet<usize> =
                    extra.from.iter().map(|from| from % (count - 1)).collect();
                let does = match extra.to {
                    Some(to) => Does::Moves(from, to % count),
                    None => Does::Stays(from),
                };
                events.push(Event::new(format!("e{at}"), does, extra.roles, manners()));
            }
            for event in &mut events {
                event.otherwise.retain(|at, _| *at < count);
            }
            Sketch {
                version: 1,
                states: (0..count).map(|at| Some(format!("s{at}"))).collect(),
                events: events.into_iter().map(Some).collect(),
                map_states: Vec::new(),
                map_events: Vec::new(),
            }
        })
}

/// What a later version says otherwise.
#[derive(Clone, Debug)]
pub(super) struct Revised {
    manners: Vec<Option<Manners>>,
    rename_state: Option<usize>,
    merge: Option<(usize, usize)>,
    rename_event: Option<usize>,
    drop_event: Option<(usize, Option<usize>)>,
}

pub(super) fn revised() -> impl Strategy<Value = Revised> {
    (
        prop::collection::vec(prop::option::weighted(0.2, manners()), SKETCHED_EVENTS_MAX),
        prop::option::weighted(0.4, 0..SKETCHED_STATES_MAX),
        prop::option::weighted(0.3, (0..SKETCHED_STATES_MAX, 0..SKETCHED_STATES_MAX)),
        prop::option::weighted(0.4, 0..SKETCHED_EVENTS_MAX),
        prop::option::weighted(
            0.3,
            (
                2..SKETCHED_EVENTS_MAX,
                prop::option::of(0..SKETCHED_EVENTS_MAX),
            ),
        ),
    )
        .prop_map(
            |(manners, rename_state, merge, rename_event, drop_event)| Revised {
                manners,
                rename_state,
                merge,
                rename_event,
                drop_event,
            },
        )
}

impl Sketch {
    pub(super) fn event(&self, at: usize) -> Option<&Event> {
        self.events.get(at)?.as_ref()
    }

    /// The version that follows; and where each state and each event of this one is then.
    pub(super) fn next(&self, revised: &Revised) -> (Self, Vec<usize>, Vec<Option<usize>>) {
        let mut next = self.clone();
        next.version += 1;
        next.map_states.clear();
        next.map_events.clear();
        let mut states: Vec<usize> = (0..self.states.len()).collect();
        let mut events: Vec<Option<usize>> = (0..self.events.len()).map(Some).collect();
        for (event, manners) in next.events.iter_mut().zip(&revised.manners) {
            if let (Some(known), Some(manners)) = (event, manners) {
                *known = known.clone().behaving(*manners);
                let alive = |at: &usize| self.states.get(*at).is_some_and(Option::is_some);
                known.otherwise.retain(|at, _| alive(at));
            }
        }
        let last = self.states.len() - 1;
        if let Some((gone, into)) = revised.merge {
            let (gone, into) = (gone % self.states.len(), into % self.states.len());
            let both = next.states[gone].clone().zip(next.states[into].clone());
            if let Some((was, now)) = both.filter(|_| gone != into && gone != last && into != last)
            {
                next.states[gone] = None;
                next.map_states.push((was, now));
                states[gone] = into;
                next.lead(&states);
            }
        }
        if let Some(at) = revised.rename_state.map(|at| at % self.states.len())
            && let Some(was) = next.states[at].clone()
        {
            let now = format!("{}v{}", was, next.version);
            // Names that were led here say so themselves.
            for (_, led) in next.map_states.iter_mut().filter(|(_, led)| *led == was) {
                led.clone_from(&now);
            }
            next.map_states.push((was, now.clone()));
            next.states[at] = Some(now);
        }
        if let Some(at) = revised.rename_event.map(|at| at % self.events.len())
            && let Some(event) = &mut next.events[at]
        {
            let was = event.name.clone();
            event.name = format!("{}v{}", was, next.version);
            next.map_events.push((was, Some(event.name.clone())));
        }
        if let Some((gone, heir)) = revised.drop_event {
            let gone = gone % self.events.len();
            let heir = heir.map(|heir| heir % self.events.len());
            let heir = heir.filter(|heir| *heir != gone && next.events[*heir].is_some());
            let renamed = revised.rename_event.map(|at| at % self.events.len()) == Some(gone);
            if !renamed && let Some(event) = next.events[gone].take() {
                let heir_name =
                    heir.and_then(|heir| Some(next.events[heir].as_ref()?.name.clone()));
                next.map_events.push((event.name, heir_name));
                events[gone] = heir;
            }
        }
        (next, states, events)
    }

    /// What spoke of a state that was merged speaks of the other.
    fn lead(&mut self, states: &[usize]) {
        let led = |from: &BTreeSet<usize>| from.iter().map(|at| states[*at]).collect();
        for event in self.events.iter_mut().flatten() {
            event.does = match &event.does {
                Does::Creates(to) => Does::Creates(states[*to]),
                Does::Moves(from, to) => Does::Moves(led(from), states[*to]),
                Does::Stays(from) => Does::Stays(led(from)),
            };
            let from = event.from();
            event
                .otherwise
                .retain(|at, _| states[*at] == *at && !from.contains(at));
        }
    }
}
