//! What the versions of a machine say of those before them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Machine;
use super::definition::{DigestRule, MachineVersion};
use super::in_force::InForce;
use crate::domain::ids::{EventName, StateName};

/// Most names that all versions of one machine together say what stands for: what a record of the oldest version may have
/// to be led through, and what is kept beside the file in force.
pub const SUCCESSORS_MAX: usize = 4096;

/// What one version says of names that earlier ones had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renaming {
    /// Each dropped state, and the one that its resources are in since.
    pub states: BTreeMap<StateName, StateName>,
    /// Each dropped event, and the one that stands for it since; `None`: none does.
    pub events: BTreeMap<EventName, Option<EventName>>,
    /// What of the content counted until then, for each event of which it changed or that was dropped.
    pub digests: BTreeMap<EventName, DigestRule>,
    /// How long operations were kept until then, if for a shorter time than since.
    pub kept: Option<KeptUntil>,
}

/// Operations that were decided before this moment were kept for a shorter time than those since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptUntil {
    /// How long.
    pub retention: Duration,
    /// When it was raised, in milliseconds since 1970.
    pub until_ms: u64,
}

impl Renaming {
    /// How many names it speaks of; a pointer of a content counts as one for each begun 128 bytes.
    pub fn len(&self) -> usize {
        let digests = self.digests.values().map(|rule| match rule {
            DigestRule::Whole | DigestRule::None => 1,
            DigestRule::Include(pointers) | DigestRule::Exclude(pointers) => {
                1 + pointers.iter().map(|it| 1 + it.len() / 128).sum::<usize>()
            }
        });
        let kept = usize::from(self.kept.is_some());
        self.states.len() + self.events.len() + digests.sum::<usize>() + kept
    }

    /// Whether it speaks of none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What every version so far says of names that earlier ones had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage(BTreeMap<MachineVersion, Renaming>);

impl Lineage {
    /// As stored.
    pub fn of(versions: impl IntoIterator<Item = (MachineVersion, Renaming)>) -> Self {
        Self(versions.into_iter().collect())
    }

    /// With what a further version says.
    #[must_use]
    pub fn followed_by(mut self, machine: &Machine) -> Self {
        let map = &machine.definition().map;
        let states = map.states.iter();
        let events = map.events.iter();
        let renaming = Renaming {
            states: states
                .map(|(from, to)| (from.value.clone(), to.value.clone()))
                .collect(),
            events: events
                .map(|(from, to)| (from.value.clone(), to.as_ref().map(|to| to.value.clone())))
                .collect(),
            digests: BTreeMap::new(),
            kept: None,
        };
        if !renaming.is_empty() {
            self.0.insert(machine.definition().version.value, renaming);
        }
        self
    }

    /// With what of the contents counted in the version before, where a further one says otherwise.
    #[must_use]
    pub fn remembering(mut self, before: &Machine, machine: &Machine) -> Self {
        let now = machine.definition();
        let rule_now = |name: &EventName| {
            let mut events = now.events.iter();
            events
                .find(|event| event.name.value == *name)
                .map(|event| &event.digest)
        };
        for event in &before.definition().events {
            let name = &event.name.value;
            if rule_now(name) != Some(&event.digest) {
                let version = self.0.entry(now.version.value).or_default();
                version.digests.insert(name.clone(), event.digest.clone());
            }
        }
        self
    }

    /// With how long operations were kept in the version before, if a further one keeps them longer from this moment on.
    #[must_use]
    pub fn raising(mut self, before: &Machine, machine: &Machine, until_ms: u64) -> Self {
        let (before, now) = (before.definition(), machine.definition());
        let retention = before.retention.value;
        if retention < now.retention.value {
            let version = self.0.entry(now.version.value).or_default();
            version.kept = Some(KeptUntil {
                retention,
                until_ms,
            });
        }
        self
    }

    /// Since when operations have been kept longer, and how long before, for each time that this was raised.
    pub fn raised(&self) -> impl Iterator<Item = KeptUntil> {
        self.0.values().filter_map(|names| names.kept)
    }

    /// The versions that say something, in their order.
    pub fn versions(&self) -> impl Iterator<Item = (MachineVersion, &Renaming)> {
        self.0.iter().map(|(version, names)| (*version, names))
    }

    /// How many names all of them speak of.
    pub fn names(&self) -> usize {
        self.0.values().map(Renaming::len).sum()
    }

    /// What the versions after one say. `None`: no version has judged yet, so all do.
    pub(super) fn after(&self, version: Option<MachineVersion>) -> impl Iterator<Item = &Renaming> {
        self.versions()
            .filter(move |(later, _)| version.is_none_or(|known| *later > known))
            .map(|(_, names)| names)
    }

    /// What stands now for a state of a version.
    pub(super) fn state<'a>(
        &'a self,
        version: Option<MachineVersion>,
        state: &'a StateName,
    ) -> &'a StateName {
        self.after(version).fold(state, |state, names| {
            names.states.get(state).unwrap_or(state)
        })
    }

    /// What stands now for an event of a version, if any does.
    pub(super) fn event<'a>(
        &'a self,
        version: Option<MachineVersion>,
        event: &'a EventName,
    ) -> Option<&'a EventName> {
        self.after(version)
            .try_fold(event, |event, names| names.event(event))
    }
}

impl Renaming {
    /// What stands for an event since.
    fn event<'a>(&'a self, event: &'a EventName) -> Option<&'a EventName> {
        match self.events.get(event) {
            None => Some(event),
            Some(successor) => successor.as_ref(),
        }
    }
}

impl Lineage {
    /// Whether an event of a version and an event as some sender calls it stood for the same in that version or a later one.
    pub(super) fn were_one(
        &self,
        (judged, version): (&EventName, Option<MachineVersion>),
        named: &EventName,
    ) -> bool {
        let known = |at: MachineVersion| version.is_some_and(|version| at <= version);
        let before = self.versions().take_while(|(at, _)| known(*at));
        let mut named = before
            .map(|(_, names)| names)
            .try_fold(named, |named, names| names.event(named));
        let mut judged = Some(judged);
        let mut later = self.after(version);
        loop {
            if judged.is_none() || named.is_none() {
                return false;
            }
            if judged == named {
                return true;
            }
            let Some(names) = later.next() else {
                return false;
            };
            judged = judged.and_then(|event| names.event(event));
            named = named.and_then(|event| names.event(event));
        }
    }
}

impl Lineage {
    /// A state as a caller names it, who may not have heard of the last version yet.
    pub(super) fn state_named<'a>(&'a self, state: &'a StateName, law: &InForce) -> &'a StateName {
        if law.has_state(state) {
            state
        } else {
            self.state(None, state)
        }
    }
}
