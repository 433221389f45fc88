//! What is done, the same for all: an order that is created, paid, shipped and delivered, each move its own operation, with
//! a JSON content of a webhook's size and a result of about 100 bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The moves of one resource: operation, the state before (empty: none), the state after.
pub(crate) const MOVES: [Move; 4] = [
    Move {
        operation: "create",
        from: "",
        to: "pending",
    },
    Move {
        operation: "pay",
        from: "pending",
        to: "paid",
    },
    Move {
        operation: "ship",
        from: "paid",
        to: "shipped",
    },
    Move {
        operation: "deliver",
        from: "shipped",
        to: "delivered",
    },
];

/// The digest of a content, which the peers are given for nothing: ours reads and hashes the content in each call.
pub(crate) const DIGEST: [u8; 32] = [0x5a; 32];

/// One move.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    pub(crate) operation: &'static str,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

/// Numbers of resources that were not used yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fresh(Arc<AtomicU64>);

impl Fresh {
    pub(crate) fn next(&self) -> String {
        format!("{:012}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// Walks through resources, move by move, so many moves of each.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    fresh: Fresh,
    moves: usize,
    at: usize,
    resource: String,
}

impl Walk {
    pub(crate) fn new(fresh: &Fresh) -> Self {
        Self::of_moves(fresh, MOVES.len())
    }

    pub(crate) fn of_moves(fresh: &Fresh, moves: usize) -> Self {
        Self {
            fresh: fresh.clone(),
            moves,
            at: 0,
            resource: String::new(),
        }
    }

    pub(crate) fn next(&mut self) -> (&str, Move) {
        if self.at == 0 {
            self.resource = self.fresh.next();
        }
        let step = MOVES[self.at];
        self.at = (self.at + 1) % self.moves;
        (&self.resource, step)
    }
}

/// What the message says, about 130 bytes of JSON.
pub(crate) fn content(resource: &str, operation: &str) -> String {
    format!(
        r#"{{"id":"evt_{resource}","type":"{operation}","amount":4200,"currency":"EUR","customer":"cus_9s6XKzkNRiz8i3","livemode":true}}"#
    )
}

/// What came of it, about 100 bytes of JSON.
pub(crate) fn result(resource: &str, operation: &str) -> String {
    format!(
        r#"{{"order":"{resource}","done":"{operation}","receipt":"rcpt_1NG8Du2eZvKYlo2CUI79vXWy","status":"ok"}}"#
    )
}
