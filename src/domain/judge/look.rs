//! What is known of a resource, laid open for whoever tells its story. Nothing is judged, nothing is written.

use std::sync::Arc;

use super::interrupted::Condition;
use super::law::Terms;
use super::{Answer, Fold, TokenRef, Unlawful};
use crate::domain::claim::OpenOperation;
use crate::domain::decision::Snapshot;
use crate::domain::record::Record;
use crate::domain::token::FencingToken;

/// A resource, laid open.
#[derive(Clone, Debug)]
pub struct Look {
    /// As Inspect shows it.
    pub snapshot: Snapshot,
    /// Its record, in the names of the machine in force as far as they fit; a round whose key is gone is over.
    pub record: Record,
    /// The token of the round that holds it.
    pub live: Option<FencingToken>,
    /// The token that was granted last, live or over.
    pub last: Option<FencingToken>,
    /// Operations that were claimed and are not finished, oldest first.
    pub open: Vec<LookedInto>,
    /// Why no message about it can be judged now.
    pub unlawful: Option<Unlawful>,
}

/// An operation that was claimed and is not finished.
#[derive(Clone, Debug)]
pub struct LookedInto {
    /// It.
    pub operation: OpenOperation,
    /// How it stands.
    pub condition: Condition,
    /// Whether it changes the resource, so that other moves wait for it.
    pub moves: bool,
}

impl Fold<'_> {
    /// Lays the resource open as it stands.
    pub fn look(mut self) -> Look {
        let unlawful = self.follow().err();
        let allowed = match unlawful {
            None => self.law.allowed_events(self.record.state.as_ref()),
            Some(_) => Arc::default(),
        };
        let Answer::Snapshot(snapshot) = self.bare_snapshot(allowed).finish(None) else {
            unreachable!("a bare snapshot is answered by itself");
        };
        let live = match self.live {
            Some(TokenRef::Known(token)) => Some(token),
            // Nothing is granted in a fold that only looks.
            Some(TokenRef::ThisCommit { .. }) | None => None,
        };
        let round = self.record.round.as_ref();
        let open = self.record.open.iter().map(|open| LookedInto {
            operation: open.clone(),
            condition: self.condition(open),
            moves: Terms::of_claim(open).changes(),
        });
        let open = open.collect();
        Look {
            snapshot,
            open,
            last: round.and_then(|round| round.token(self.revision)),
            live,
            unlawful,
            record: self.record,
        }
    }
}
