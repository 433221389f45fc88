//! Brings what is heard of a resource into the order in which it happened.
//!
//! Two things are heard apart: changes of the record, and that the reservation key is gone. The record tells of every grant and
//! release, but not when a lease ran out. So a state is told for each change of the record, and one for each end that no change
//! of the record came with.

use std::collections::VecDeque;

use crate::domain::ids::Nonce;
use crate::domain::record::{Record, RoundEnd};
use crate::domain::token::Revision;

/// A resource as it stood from a revision on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) at: Revision,
    /// With the revision of its last change.
    pub(super) record: Option<(Record, Revision)>,
    /// Whether its last round held it.
    pub(super) live: bool,
    /// Whether states before it may be missing.
    pub(super) gap: bool,
}

/// What was told last of who holds the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// Nothing was told yet.
    Unknown,
    Free,
    Round(Nonce),
}

/// Changes of the record that are remembered to have been told. The end that came with one of them is heard apart.
const TOLD_MAX: usize = 64;

/// What is heard and not told yet.
#[derive(Debug)]
pub(super) struct Order {
    told: Revision,
    holder: Holder,
    /// The record as it was told last, or as it stood at the beginning.
    record: Option<(Record, Revision)>,
    /// The last changes of the record that were told.
    changes_told: VecDeque<Revision>,
    records: VecDeque<(Option<Record>, Revision)>,
    ends: VecDeque<Revision>,
    /// The record was looked at after the last of `ends`, and had last been changed then.
    looked: Option<Option<Revision>>,
    /// States before the next that is told may be missing.
    late: bool,
    /// Ends that were not waited for any more, and said to be missing.
    given_up: usize,
}

/// What can be told now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Tell(Box<State>),
    /// Nothing.
    Nothing,
    /// The record has to be looked at.
    Look,
    /// An end must have come before what is known, and is not heard of yet.
    Patience,
}

impl Order {
    /// Begins behind a state that was told.
    pub(super) fn after(state: &State) -> Self {
        Self {
            told: state.at,
            holder: holder_of(state.record.as_ref().map(|(record, _)| record), state.live),
            ..Self::behind(state.at, state.record.clone())
        }
    }

    /// Begins behind a revision. `record`: as it stood there, if that is known.
    pub(super) fn behind(revision: Revision, record: Option<(Record, Revision)>) -> Self {
        Self {
            told: revision,
            holder: Holder::Unknown,
            record,
            changes_told: VecDeque::new(),
            records: VecDeque::new(),
            ends: VecDeque::new(),
            looked: None,
            late: false,
            given_up: 0,
        }
    }

    pub(super) fn told(&self) -> Revision {
        self.told
    }

    /// Changes that are heard and not told yet.
    pub(super) fn records_waiting(&self) -> usize {
        self.records.len()
    }

    pub(super) fn records(&mut self, changes: Vec<(Option<Record>, Revision)>) {
        self.records.extend(changes);
    }

    pub(super) fn ends(&mut self, ends: Vec<Revision>) {
        for end in ends {
            if end > self.told {
                self.ends.push_back(end);
                self.looked = None;
            } else if !self.changes_told.contains(&end) {
                // It belongs before what was told.
                match self.given_up.checked_sub(1) {
                    Some(left) => self.given_up = left,
                    None => self.late = true,
                }
            }
        }
    }

    /// The record was looked at, after all ends that are known, and was last changed then.
    pub(super) fn looked(&mut self, last_change: Option<Revision>) {
        self.looked = Some(last_change);
    }

    /// What comes next. `patient`: whether an end that must have come is still waited for.
    pub(super) fn next(&mut self, patient: bool) -> Next {
        loop {
            let change = self.records.front().map(|(_, at)| *at);
            let Some(end) = self.ends.front().copied() else {
                return self.next_record(patient);
            };
            match change {
                // A release, or a claim that was completed.
                Some(at) if at == end => {
                    self.ends.pop_front();
                    return self.tell_record();
                }
                Some(at) if at < end => return self.tell_record(),
                Some(_) if !self.knows_what_ended() => {
                    self.ends.pop_front();
                    self.late = true;
                }
                Some(_) => return self.tell_end(end),
                None => match self.looked {
                    None => return Next::Look,
                    Some(last) if last.is_none_or(|last| last <= self.told) => {
                        if self.knows_what_ended() {
                            return self.tell_end(end);
                        }
                        self.ends.pop_front();
                        self.late = true;
                    }
                    // The record was changed since, and that will be heard.
                    Some(_) => return Next::Nothing,
                },
            }
        }
    }

    /// Whether the state that an end led to can be told: what else there was is known.
    fn knows_what_ended(&self) -> bool {
        self.holder != Holder::Unknown || self.record.is_some()
    }

    fn next_record(&mut self, patient: bool) -> Next {
        let Some((record, _)) = self.records.front() else {
            return Next::Nothing;
        };
        if self.ran_out_before(record.as_ref()) {
            if patient {
                return Next::Patience;
            }
            self.late = true;
            self.given_up = self.given_up.saturating_add(1);
        }
        self.tell_record()
    }

    /// Whether a round ended by its lease before this record was written, and that was not told.
    fn ran_out_before(&self, record: Option<&Record>) -> bool {
        let Some(record) = record else {
            return matches!(self.holder, Holder::Round(_));
        };
        let lost = |nonce: Nonce| {
            let last = record.round.iter().map(|round| (round.nonce, round.over));
            let past = record.past_rounds.iter();
            let past = past.map(|past| (past.nonce, Some(past.end)));
            last.chain(past)
                .any(|(named, over)| named == nonce && over == Some(RoundEnd::Lost))
        };
        match self.holder {
            Holder::Round(nonce) => lost(nonce),
            Holder::Free | Holder::Unknown => false,
        }
    }

    fn tell_record(&mut self) -> Next {
        let Some((record, at)) = self.records.pop_front() else {
            return Next::Nothing;
        };
        // What is written under a live round was written while its key was there; else the record says that it is over.
        let round = record.as_ref().and_then(|record| record.round.as_ref());
        let live = round.is_some_and(|round| round.over.is_none());
        self.holder = holder_of(record.as_ref(), live);
        if self.changes_told.len() == TOLD_MAX {
            self.changes_told.pop_front();
        }
        self.changes_told.push_back(at);
        self.record = record.map(|record| (record, at));
        self.tell(at, live)
    }

    fn tell_end(&mut self, end: Revision) -> Next {
        self.ends.pop_front();
        self.holder = Holder::Free;
        self.tell(end, false)
    }

    fn tell(&mut self, at: Revision, live: bool) -> Next {
        self.told = at;
        Next::Tell(Box::new(State {
            at,
            record: self.record.clone(),
            live,
            gap: std::mem::take(&mut self.late),
        }))
    }
}

fn holder_of(record: Option<&Record>, live: bool) -> Holder {
    let round = record.and_then(|record| record.round.as_ref());
    match round.filter(|_| live) {
        Some(round) => Holder::Round(round.nonce),
        None => Holder::Free,
    }
}

#[cfg(test)]
mod tests;
