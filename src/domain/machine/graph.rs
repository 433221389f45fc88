//! Which states lead where.

use std::collections::BTreeMap;

use super::definition::{Definition, Effect, STATES_MAX};
use crate::domain::ids::StateName;

/// A set of states, one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StateSet(u64);

// One bit for each state.
const _: () = assert!(STATES_MAX <= 64);

impl StateSet {
    pub(super) fn one(state: usize) -> Self {
        // An index beyond the set is in no set.
        Self(
            1_u64
                .checked_shl(u32::try_from(state).unwrap_or(u32::MAX))
                .unwrap_or(0),
        )
    }

    pub(super) fn contains(self, state: usize) -> bool {
        self.0 & Self::one(state).0 != 0
    }

    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        (0..STATES_MAX).filter(move |state| self.contains(*state))
    }
}

impl FromIterator<usize> for StateSet {
    fn from_iter<I: IntoIterator<Item = usize>>(states: I) -> Self {
        states
            .into_iter()
            .fold(Self::default(), |set, state| set.with(Self::one(state)))
    }
}

/// The moves of a machine. States are counted in the order of the file.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    index: BTreeMap<StateName, usize>,
    /// In which states a resource may begin.
    pub(super) created: StateSet,
    /// Where each state's moves lead.
    pub(super) next: Vec<StateSet>,
    /// What can be reached from each state in one move or more.
    pub(super) ahead: Vec<StateSet>,
}

impl Graph {
    /// Names that are not declared are left out; lint tells of them.
    pub(super) fn new(definition: &Definition) -> Self {
        let names = definition
            .states
            .iter()
            .map(|state| state.name.value.clone());
        let index: BTreeMap<StateName, usize> = names.zip(0..).collect();
        let mut graph = Self {
            created: StateSet::default(),
            next: vec![StateSet::default(); definition.states.len()],
            ahead: Vec::new(),
            index,
        };
        for event in &definition.events {
            let from = graph.set(event.from().iter().map(|from| &from.value));
            match &event.effect {
                Effect::Creates(to) => {
                    graph.created = graph.created.with(graph.set([&to.value]));
                }
                Effect::Moves { to, .. } => {
                    let to = graph.set([&to.value]);
                    for (state, next) in graph.next.iter_mut().enumerate() {
                        if from.contains(state) {
                            *next = next.with(to);
                        }
                    }
                }
                Effect::Stays { .. } => {}
            }
        }
        graph.ahead = graph.next.iter().map(|next| graph.closure(*next)).collect();
        graph
    }

    pub(super) fn at(&self, state: &StateName) -> Option<usize> {
        self.index.get(state).copied()
    }

    pub(super) fn set<'a>(&self, states: impl IntoIterator<Item = &'a StateName>) -> StateSet {
        states
            .into_iter()
            .filter_map(|state| self.at(state))
            .collect()
    }

    /// Where a resource can ever be.
    pub(super) fn reachable(&self) -> StateSet {
        self.closure(self.created)
    }

    /// What can be reached from some states, they themselves included.
    fn closure(&self, start: StateSet) -> StateSet {
        let mut seen = start;
        let mut new = start;
        while !new.is_empty() {
            let found = new.iter().filter_map(|state| self.next.get(state));
            let found = found.fold(StateSet::default(), |all, next| all.with(*next));
            new = found.without(seen);
            seen = seen.with(new);
        }
        seen
    }
}
