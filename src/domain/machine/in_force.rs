//! A machine in force, made ready for judging: what a call asks of it costs the same however large its file is.

use std::collections::HashMap;
use std::sync::Arc;

use super::Machine;
use super::definition::{DigestRule, Effect, Event, MachineVersion, Otherwise};
use super::graph::{Graph, StateSet};
use super::lineage::Lineage;
use crate::domain::ids::{EventName, IdentityName, StateName};
use crate::domain::retention::Keeping;

/// A machine in force.
#[derive(Clone, Debug)]
pub struct InForce {
    machine: Machine,
    lineage: Lineage,
    /// Where each event stands in the file.
    events: HashMap<EventName, usize>,
    /// Where each event is allowed, in the order of the file.
    allowed_in: Vec<StateSet>,
    /// What each event is told where the file says so itself.
    said: Vec<HashMap<usize, Otherwise>>,
    /// In which states each identity name can begin a value; those that a creating event sets are in `born_with`.
    set_in: HashMap<IdentityName, StateSet>,
    born_with: Vec<IdentityName>,
    /// The events allowed for a resource that does not exist, then in each state in the order of the file.
    allowed_events: Vec<Arc<[EventName]>>,
    reachable: StateSet,
}

/// States that an event may start from, as far as a request leaves them.
#[derive(Clone, Copy, Debug)]
pub struct Starts(StateSet);

/// An event of a machine in force.
#[derive(Clone, Copy, Debug)]
pub struct EventInForce<'m> {
    law: &'m InForce,
    at: usize,
    /// What the file says of it.
    pub event: &'m Event,
}

impl InForce {
    /// Makes a machine ready. The lineage holds what this version says, too.
    pub fn new(machine: Machine, lineage: Lineage) -> Self {
        let definition = machine.definition();
        let graph = &machine.graph;
        let allowed_in: Vec<StateSet> = definition
            .events
            .iter()
            .map(|event| graph.set(event.from().iter().map(|from| &from.value)))
            .collect();
        let mut set_in: HashMap<IdentityName, StateSet> = HashMap::new();
        let mut born_with = Vec::new();
        let mut absent = Vec::new();
        let mut by_state = vec![Vec::new(); definition.states.len()];
        for (event, allowed) in definition.events.iter().zip(&allowed_in) {
            let name = &event.name.value;
            let creates = matches!(event.effect, Effect::Creates(_));
            for set in &event.sets {
                let states = set_in.entry(set.value.clone()).or_default();
                *states = states.with(*allowed);
                if creates {
                    born_with.push(set.value.clone());
                }
            }
            if creates {
                absent.push(name.clone());
            }
            for (state, events) in by_state.iter_mut().enumerate() {
                if allowed.contains(state) {
                    events.push(name.clone());
                }
            }
        }
        let said = definition.events.iter().map(|event| said(event, graph));
        let names = definition.events.iter().map(|event| &event.name.value);
        Self {
            events: names.cloned().zip(0..).collect(),
            said: said.collect(),
            allowed_in,
            set_in,
            born_with,
            allowed_events: std::iter::once(absent)
                .chain(by_state)
                .map(Arc::from)
                .collect(),
            reachable: graph.reachable(),
            machine,
            lineage,
        }
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// How long what is kept of a resource in a state. Only one that nothing leaves is forgotten, if the file says when.
    pub fn keeping(&self, configured: Keeping, state: Option<&StateName>) -> Keeping {
        let definition = self.machine.definition();
        let operations = definition.retention.value;
        let mut states = definition.states.iter();
        let at_rest = states.any(|known| known.is_final && Some(&known.name.value) == state);
        let forget = definition.forget.as_ref().map(|forget| forget.value);
        Keeping {
            operations,
            // Not shorter than what it tells of.
            incidents: configured.incidents.max(operations),
            forget: forget
                .filter(|_| at_rest)
                .map(|forget| forget.max(operations)),
        }
    }

    /// What its versions so far say of names that earlier ones had.
    pub fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// Its version.
    pub fn version(&self) -> MachineVersion {
        self.machine.definition().version.value
    }

    /// Whether it has a state.
    pub fn has_state(&self, state: &StateName) -> bool {
        self.machine.graph.at(state).is_some()
    }

    /// What stands now for a state of an earlier version; `None`: of a time before the first.
    pub fn successor<'a>(
        &'a self,
        version: Option<MachineVersion>,
        state: &'a StateName,
    ) -> &'a StateName {
        self.lineage.state(version, state)
    }

    /// The event of that name, or the one that stands for it since it was dropped.
    pub fn event(&self, name: &EventName) -> Option<EventInForce<'_>> {
        let found = self.events.get(name).or_else(|| {
            let successor = self.lineage.event(None, name)?;
            self.events.get(successor)
        });
        let at = *found?;
        let event = self.machine.definition().events.get(at)?;
        Some(EventInForce {
            law: self,
            at,
            event,
        })
    }

    /// Whether an event that an earlier version judged is the same as one that is named now: whether the two names stood for
    /// one event in any version since. What was once the same stays the same, also when no event stands for it any more.
    pub fn same_event(
        &self,
        judged: (&EventName, Option<MachineVersion>),
        named: &EventName,
    ) -> bool {
        let then = self.lineage.event(judged.1, judged.0);
        let now = self.event(named).map(|event| &event.event.name.value);
        (then.is_some() && then == now) || self.lineage.were_one(judged, named)
    }

    /// What of the content counted for an event when a version judged it. `None`: no such version is known here.
    pub fn digest_then(&self, event: &EventName, version: MachineVersion) -> Option<&DigestRule> {
        if version > self.version() {
            return None;
        }
        let mut later = self.lineage.after(Some(version));
        let changed = later.find_map(|names| names.digests.get(event));
        changed.or_else(|| {
            let at = *self.events.get(event)?;
            Some(&self.machine.definition().events.get(at)?.digest)
        })
    }

    /// The events that a state allows; `None`: the resource does not exist.
    pub fn allowed_events(&self, state: Option<&StateName>) -> Arc<[EventName]> {
        let at = match state {
            None => Some(0),
            Some(state) => self.machine.graph.at(state).map(|at| at + 1),
        };
        at.and_then(|at| self.allowed_events.get(at))
            .cloned()
            .unwrap_or_default()
    }

    /// Whether any event compares, sets or clears an identity name. What is compared or cleared is set by some event.
    pub fn knows(&self, name: &IdentityName) -> bool {
        self.set_in.contains_key(name)
    }

    /// Whether an event that sets an identity name is allowed now or can be later.
    pub fn can_be_set(&self, name: &IdentityName, state: Option<&StateName>) -> bool {
        let states = self.set_in.get(name).copied().unwrap_or_default();
        match state.and_then(|state| self.machine.graph.at(state)) {
            Some(at) => states.contains(at) || self.ahead(at).meets(states),
            None => self.reachable.meets(states) || self.born_with.contains(name),
        }
    }

    fn ahead(&self, at: usize) -> StateSet {
        let ahead = self.machine.graph.ahead.get(at);
        ahead.copied().unwrap_or_default()
    }
}

fn said(event: &Event, graph: &Graph) -> HashMap<usize, Otherwise> {
    let said = event.otherwise.iter();
    said.filter_map(|(state, said)| Some((graph.at(&state.value)?, *said)))
        .collect()
}

impl<'m> EventInForce<'m> {
    /// The states that it may start from, narrowed by those that a request names, if it names any.
    pub fn starts(&self, narrowed: &[StateName]) -> Starts {
        let allowed = self.law.allowed_in.get(self.at);
        let allowed = allowed.copied().unwrap_or_default();
        if narrowed.is_empty() {
            return Starts(allowed);
        }
        let named = narrowed
            .iter()
            .map(|state| self.law.lineage.state_named(state, self.law));
        let named = self.law.machine.graph.set(named);
        Starts(allowed.both(named))
    }

    /// Whether a state is among the starts.
    pub fn starts_in(&self, starts: Starts, state: &StateName) -> bool {
        let at = self.law.machine.graph.at(state);
        at.is_some_and(|at| starts.0.contains(at))
    }

    /// The starts by name, in the order of the file.
    pub fn names(&self, starts: Starts) -> impl Iterator<Item = &'m StateName> + use<'m> {
        let states = &self.law.machine.definition().states;
        let named = starts.0.iter().filter_map(|at| states.get(at));
        named.map(|state| &state.name.value)
    }

    /// Whether one of the starts can still come; `None`: the resource does not exist.
    pub fn can_come(&self, starts: Starts, state: Option<&StateName>) -> bool {
        match state.and_then(|state| self.law.machine.graph.at(state)) {
            Some(at) => self.law.ahead(at).meets(starts.0),
            None => self.law.reachable.meets(starts.0),
        }
    }

    /// What the file itself says of it in a state that does not allow it.
    pub fn said(&self, state: &StateName) -> Option<Otherwise> {
        let at = self.law.machine.graph.at(state)?;
        self.law.said.get(self.at)?.get(&at).copied()
    }
}

impl Starts {
    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}
