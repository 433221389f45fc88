//! The state and how it was reached; identity values.

use super::words::{count, list, span};
use super::{Telling, Topic};
use crate::domain::judge::Unlawful;
use crate::domain::record::{Record, Visit};

impl Telling<'_> {
    /// The state, since when, and the visits.
    pub(super) fn standing(&mut self) {
        let look = &self.look;
        let (record, resource) = (&look.record, &look.snapshot.resource);
        let mut told = Vec::new();
        if look.snapshot.revision.is_none() && self.gathered.waiting.calls > 0 {
            told.push(format!(
                "{resource} was never written, or all of it was over and has been removed; but it is waited for."
            ));
        } else if look.snapshot.revision.is_none() {
            told.push(format!(
                "Nothing is known of {resource}: it was never written, or all of it was over and has been removed."
            ));
        } else if let Some(state) = &record.state {
            let entered = record.visits.get(state).map(|visit| visit.entered);
            let since = entered.map_or_else(String::new, |entered| {
                format!(" since move {entered} of {}", record.moves)
            });
            told.push(format!("{resource} is in state {state}{since}."));
            told.extend(visits(record));
        } else if let Some(forgotten) = record.forgotten {
            let now = self.gathered.when.now.seconds();
            let past = span(now.saturating_sub(forgotten.seconds()));
            told.push(format!(
                "{resource} was untouched for so long that its state was forgotten, {past} ago; what would begin it anew is refused."
            ));
        } else {
            told.push(format!("{resource} has no state: nothing has created it."));
        }
        if let Some(version) = record.machine
            && look.snapshot.revision.is_some()
        {
            told.push(format!("It follows version {version} of its machine."));
        }
        match &look.unlawful {
            Some(Unlawful::Mismatch(why)) => {
                told.push(format!("No message about it can be judged now: {why}."));
            }
            // These come of what a request says, and there is none.
            Some(
                Unlawful::Field { .. }
                | Unlawful::NoMachine
                | Unlawful::Unread
                | Unlawful::NoEvent { .. },
            )
            | None => {}
        }
        for text in told {
            self.say(Topic::State, text);
        }
    }

    /// The values in force, and how often each was replaced.
    pub(super) fn identity(&mut self) {
        let mut told = Vec::new();
        for (name, value) in &self.look.record.identity {
            let replaced = u64::try_from(value.replaced.len()).unwrap_or(u64::MAX);
            let before = match replaced {
                0 => String::new(),
                _ => format!(
                    "; {} before it {} replaced",
                    count(replaced, "value", "values"),
                    if replaced == 1 { "was" } else { "were" }
                ),
            };
            told.push(match &value.current {
                Some(current) => format!("The {name} in force is {current:?}{before}."),
                None => format!(
                    "No {name} is in force; {} ended.",
                    count(replaced, "value has", "values have")
                ),
            });
        }
        for text in told {
            self.say(Topic::Identity, text);
        }
    }
}

/// Where it has been, in the order in which it was last entered.
fn visits(record: &Record) -> Option<String> {
    let mut visits: Vec<_> = record.visits.iter().collect();
    visits.sort_by_key(|(_, visit)| visit.entered);
    if visits.len() < 2 {
        return None;
    }
    let each = visits
        .iter()
        .map(|(state, visit)| format!("{state} ({})", stay(visit)));
    Some(format!("It was in: {}.", list(each)))
}

fn stay(visit: &Visit) -> String {
    let entered = visit.entered;
    match visit.left {
        Some(left) if left > entered => format!("entered by move {entered}, left by move {left}"),
        Some(left) => format!("left by move {left}, entered again by move {entered}"),
        None => format!("entered by move {entered}"),
    }
}
