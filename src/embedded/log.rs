//! What each revision changed, for watchers that begin in the past.

use std::collections::VecDeque;

use bytes::Bytes;

use super::history::Live;

/// One change of one key; `live` is `None` for a deletion.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) key: Bytes,
    pub(super) live: Option<Live>,
}

impl Event {
    fn bytes(&self) -> usize {
        self.key.len() + self.live.as_ref().map_or(0, |live| live.value.len())
    }
}

#[derive(Debug)]
struct Commit {
    events: Vec<Event>,
    bytes: usize,
}

/// Every revision from `first` on has one commit, so a revision is an index.
#[derive(Debug)]
pub(super) struct Log {
    first: i64,
    commits: VecDeque<Commit>,
    bytes: usize,
}

impl Log {
    pub(super) fn starting_after(revision: i64) -> Self {
        Self {
            first: revision + 1,
            commits: VecDeque::new(),
            bytes: 0,
        }
    }

    pub(super) fn push(&mut self, events: Vec<Event>) {
        let bytes = events.iter().map(Event::bytes).sum();
        self.bytes += bytes;
        self.commits.push_back(Commit { events, bytes });
    }

    pub(super) fn events(&self, revision: i64) -> &[Event] {
        usize::try_from(revision - self.first)
            .ok()
            .and_then(|index| self.commits.get(index))
            .map_or(&[], |commit| &commit.events)
    }

    pub(super) fn first(&self) -> i64 {
        self.first
    }

    pub(super) fn revisions(&self) -> usize {
        self.commits.len()
    }

    /// Keys and values of all commits together.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn pop_oldest(&mut self) -> Option<Vec<Event>> {
        let commit = self.commits.pop_front()?;
        self.first += 1;
        self.bytes -= commit.bytes;
        Some(commit.events)
    }
}
