//! What the law says of a claim is said at its grant, and kept with it: completing makes the move that was judged then.

use super::Fold;
use super::law::{Law, Named, Terms, Unlawful};
use crate::domain::claim::{JudgedAs, OpenOperation};
use crate::domain::ids::IdentityName;
use crate::domain::machine::{Interrupted as Said, MachineVersion};
use crate::domain::request::{Intent, Interrupted, Move};

impl<'t> Terms<'t> {
    /// What an open operation does, as it was judged when its claim was granted.
    pub(super) fn of_claim(open: &'t OpenOperation) -> Self {
        let plain = Self::without_machine(&open.intent);
        let Some(judged) = &open.judged else {
            return plain;
        };
        // By a machine the values that begin are among those that the message names.
        let sets = |name: &IdentityName| plain.sets.iter().any(|(set, _)| *set == name);
        Self {
            compare: open
                .intent
                .identity
                .iter()
                .filter(|(name, _)| !sets(name))
                .collect(),
            clears: judged.clears.iter().collect(),
            ..plain
        }
    }

    /// What becomes of it if its claim dies.
    pub(super) fn interrupted(&self, intent: &Intent) -> Interrupted {
        match self.event.map(|(event, _)| event.event.interrupted.value) {
            None => intent.interrupted,
            Some(Said::Rerun) => Interrupted::Rerun,
            // Before there are tasks to put it off to, a person decides.
            Some(Said::Ask | Said::Defer) => Interrupted::Ask,
        }
    }

    /// The intent as a claim of it is kept, and what a machine said of it.
    pub(super) fn for_claim(
        &self,
        intent: &Intent,
        version: Option<MachineVersion>,
    ) -> (Intent, Option<JudgedAs>) {
        let mut kept = intent.clone();
        kept.interrupted = self.interrupted(intent);
        let judged = self
            .event
            .zip(version)
            .map(|((event, _), version)| JudgedAs {
                event: event.event.name.value.clone(),
                version,
                clears: self.clears.iter().map(|name| (*name).clone()).collect(),
                keeps_retrying: self.keeps_retrying(),
            });
        if judged.is_some() {
            let owned = |(name, value): &Named<'_>| ((*name).clone(), (*value).clone());
            kept.event = None;
            kept.digest = self.digest(intent);
            kept.from = self.expected();
            kept.movement = Some(Move {
                to: self.to.cloned(),
                initial: None,
                sets: self.sets.iter().map(owned).collect(),
            });
        }
        (kept, judged)
    }
}

impl Fold<'_> {
    /// Whether the law in force has the state that a claim leads to.
    pub(super) fn has_place_for(&self, terms: &Terms<'_>) -> Result<(), Unlawful> {
        match (self.law, terms.to) {
            (Law::Machine(machine), Some(to)) if !machine.has_state(to) => {
                let version = machine.version();
                Err(Unlawful::Mismatch(format!(
                    "the claimed operation leads to state {to}, which version {version} of the machine does not have: \
                     apply a higher version that has it, or whose `map` says what stands for it"
                )))
            }
            (Law::Machine(_) | Law::NoFile | Law::Unreadable(_), _) => Ok(()),
        }
    }
}
