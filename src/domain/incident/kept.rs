//! How much evidence one incident keeps.

use std::collections::BTreeSet;

use super::{BYTES_MARK, Evidence};
use crate::domain::decision::IncidentId;
use crate::domain::outcome::{HEADERS_BYTES_MAX, RESULT_BODY_BYTES_MAX};

/// Most results that are kept in one incident. Beyond them they are only counted.
pub const EVIDENCE_PIECES_MAX: usize = 64;
/// Most bytes of results that are kept in one incident, about.
pub const EVIDENCE_BYTES_MAX: usize = 1024 * 1024;
/// Of a part whose name does not say how many bytes it has.
const LARGEST_PART_BYTES: usize = RESULT_BODY_BYTES_MAX + 2 * HEADERS_BYTES_MAX;

// The largest results fit several times.
const _: () = assert!(8 * LARGEST_PART_BYTES < EVIDENCE_BYTES_MAX);

/// What one incident keeps as evidence, by the names of the pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptEvidence {
    pieces: BTreeSet<IncidentId>,
    bytes: usize,
}

impl KeptEvidence {
    /// Adds a piece by its name as a part of the incident, wherever it is kept.
    pub fn add(&mut self, piece: IncidentId) {
        let bytes = bytes_of(&piece);
        if self.pieces.insert(piece) {
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }

    /// Whether this very piece is kept.
    pub fn has(&self, piece: &IncidentId) -> bool {
        self.pieces.contains(piece)
    }

    /// Whether there is room for one more. That a claim died is always kept: it is small, opens the incident again, and
    /// happens no oftener than claims are granted.
    pub fn has_room_for(&self, evidence: &Evidence) -> bool {
        let bytes = evidence.result.size();
        evidence.result.is_empty()
            || (self.pieces.len() < EVIDENCE_PIECES_MAX && self.bytes + bytes <= EVIDENCE_BYTES_MAX)
    }
}

fn bytes_of(piece: &IncidentId) -> usize {
    let said = piece.0.rsplit_once(BYTES_MARK);
    said.and_then(|(_, bytes)| bytes.parse().ok())
        .unwrap_or(LARGEST_PART_BYTES)
}
