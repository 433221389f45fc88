//! A record follows its machine from version to version.

use super::law::Unlawful;
use crate::domain::machine::InForce;
use crate::domain::record::Record;

impl Record {
    /// Speaks in the names of a version from now on, led through what every version between says of the names before.
    pub(super) fn follow(&mut self, law: &InForce) -> Result<(), Unlawful> {
        let (known, version) = (self.machine, law.version());
        if known == Some(version) {
            return Ok(());
        }
        if let Some(known) = known.filter(|known| *known > version) {
            return Err(Unlawful::Mismatch(format!(
                "the resource was judged by version {known} of its machine, and version {version} is in force: apply \
                 version {known} or a higher one again"
            )));
        }
        if let Some(state) = &self.state {
            let now = law.successor(known, state);
            if !law.has_state(now) {
                return Err(Unlawful::Mismatch(format!(
                    "the resource is in state {now}, which version {version} of its machine does not have: apply a \
                     higher version that has it, or whose `map` says what stands for it"
                )));
            }
            self.state = Some(now.clone());
        }
        // What was judged at a grant is led along: its target stands for what the versions since say of it.
        for open in &mut self.open {
            let movement = open.intent.movement.as_mut();
            let ends = movement.map_or([None, None], |to| [to.to.as_mut(), to.initial.as_mut()]);
            for state in ends.into_iter().flatten().chain(&mut open.intent.from) {
                *state = law.successor(known, state).clone();
            }
        }
        for (state, visit) in std::mem::take(&mut self.visits) {
            let now = law.successor(known, &state);
            // What no event can lead to or start from any more decides nothing.
            if law.has_state(now) {
                let merged = self.visits.entry(now.clone()).or_default();
                merged.left = merged.left.max(visit.left);
                if visit.entered >= merged.entered {
                    merged.entered = visit.entered;
                    merged.values = visit.values;
                }
            }
        }
        self.machine = Some(version);
        Ok(())
    }
}
