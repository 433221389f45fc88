//! What the law says of a claim is said at its grant, and kept with it: completing makes the move that was judged then.

use super::Fold;
use super::law::{Law, Named, Terms, Unlawful};
use crate::domain::claim::{JudgedAs, OpenOperation};
use crate::domain::ids::{EventName, IdentityName};
use crate::domain::machine::{Interrupted as Said, MachineVersion};
use crate::domain::record::{Operation, Outcome};
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

impl<'a> Fold<'a> {
    /// What completing a claim does: what was judged at its grant, or what its effect turned out to be.
    pub(super) fn terms_of_completing<'t>(
        &self,
        open: &'t OpenOperation,
        outcome: Option<&EventName>,
    ) -> Result<Terms<'t>, Unlawful>
    where
        'a: 't,
    {
        let Some(name) = outcome else {
            let terms = Terms::of_claim(open);
            return self.has_place_for(&terms).map(|()| terms);
        };
        let law: &'a Law = self.law;
        let Law::Machine(law) = law else {
            return Err(Unlawful::NoMachine);
        };
        let version = law.version();
        let Some(event) = law.event(name) else {
            let event = name.clone();
            return Err(Unlawful::NoEvent { event, version });
        };
        let wrong = |reason: String| Err(Unlawful::field("outcome_event", reason));
        let said = event.event;
        let starts = event.starts(&[]);
        let may_start = match &self.record.state {
            Some(state) => event.starts_in(starts, state),
            None => said.from().is_empty(),
        };
        if !may_start {
            return wrong(format!(
                "names {name}, which version {version} of the machine does not allow where the resource stands"
            ));
        }
        let given = &open.intent.identity;
        let in_force = |name: &IdentityName| {
            let known = self.record.identity.get(name);
            known.and_then(|known| known.current.as_ref())
        };
        for needed in said.matches.iter().map(|needed| &needed.value) {
            if given.get(needed).is_none() || given.get(needed) != in_force(needed) {
                return wrong(format!(
                    "names {name}, which matches {needed}: the claim's intent does not give the value in force"
                ));
            }
        }
        let mut sets = Vec::new();
        for begun in said.sets.iter().map(|begun| &begun.value) {
            let Some(value) = given.get_key_value(begun) else {
                return wrong(format!(
                    "names {name}, which sets {begun}: the claim's intent does not give it"
                ));
            };
            sets.push(value);
        }
        Ok(Terms {
            event: Some((event, starts)),
            from: &[],
            moves: true,
            to: said.to().map(|to| &to.value),
            initial: None,
            compare: Vec::new(),
            sets,
            clears: said.clears.iter().map(|name| &name.value).collect(),
        })
    }

    /// What is stored of an outcome: nothing where the event that was named is the one that was claimed.
    pub(super) fn outcome_of(
        &self,
        open: &OpenOperation,
        terms: &Terms<'_>,
    ) -> Option<Box<Outcome>> {
        let (Law::Machine(law), Some(event)) = (self.law, terms.event_name()) else {
            return None;
        };
        let as_claimed = open
            .judged_as()
            .is_some_and(|(claimed, version)| law.same_event((claimed, Some(version)), event));
        (!as_claimed).then(|| {
            Box::new(Outcome {
                event: event.clone(),
                version: law.version(),
            })
        })
    }

    /// Whether a finished operation is said to have turned out as another event than the one whose move was made.
    /// `said`: as claimed, if it names none.
    pub(super) fn turned_out_otherwise(
        &mut self,
        done: &Operation,
        said: Option<&EventName>,
    ) -> bool {
        let stored = done.outcome.as_deref();
        let made = match stored {
            Some(outcome) => Some((&outcome.event, Some(outcome.version))),
            None => done.event.as_ref().map(|event| (event, done.machine)),
        };
        let Some(said) = said else {
            return stored.is_some();
        };
        made.is_none_or(|made| !self.is_one_event(made, said))
    }

    /// Whether the law in force has the state that a claim leads to.
    pub(super) fn has_place_for(&self, terms: &Terms<'_>) -> Result<(), Unlawful> {
        let begins = terms.initial.filter(|_| self.record.state.is_none());
        let leads = [terms.to, begins].into_iter().flatten();
        let Law::Machine(machine) = self.law else {
            return Ok(());
        };
        match leads.into_iter().find(|to| !machine.has_state(to)) {
            None => Ok(()),
            Some(to) => {
                let version = machine.version();
                Err(Unlawful::Mismatch(format!(
                    "the claimed operation leads to state {to}, which version {version} of the machine does not have: \
                     apply a higher version that has it, or whose `map` says what stands for it"
                )))
            }
        }
    }
}
