//! The name of a round among callers.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{Kind, Nonce, ResourceId};
use crate::domain::invalid::Invalid;

/// Longest reservation id as text, in bytes: base64 of the longest resource and a nonce, and a little.
const RESERVATION_ID_BYTES_MAX: usize = 1024;
/// Separates the parts inside a reservation id. Neither a kind nor an id may contain it.
const PART_END: u8 = 0;
/// How every reservation id begins, so that another text is told apart before it is decoded,
const RESERVATION_ID_PREFIX: &str = "r1.";
/// and how that of several resources does.
const SEVERAL_ID_PREFIX: &str = "s1.";

/// Names one round of holding a resource, or several. The resource, of several the first in order, is part of it, so that the id
/// alone is enough to find the record.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ReservationId {
    resource: ResourceId,
    round: Nonce,
    several: bool,
}

impl ReservationId {
    /// Names a round of a resource.
    pub fn new(resource: ResourceId, round: Nonce) -> Self {
        Self {
            resource,
            round,
            several: false,
        }
    }

    /// Names a round of several resources by the first of them in order.
    pub fn of_several(lead: ResourceId, round: Nonce) -> Self {
        Self {
            several: true,
            ..Self::new(lead, round)
        }
    }

    /// Reads the text that `Display` wrote.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.is_empty() {
            return Err(Invalid::new("is required"));
        }
        let not_ours = || Invalid::new("is not a reservation id that Fencepost gave out");
        if text.len() > RESERVATION_ID_BYTES_MAX {
            return Err(not_ours());
        }
        let (encoded, several) = match text.strip_prefix(RESERVATION_ID_PREFIX) {
            Some(encoded) => (encoded, false),
            None => (
                text.strip_prefix(SEVERAL_ID_PREFIX).ok_or_else(not_ours)?,
                true,
            ),
        };
        let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| not_ours())?;
        let (nonce, names) = bytes.split_first_chunk::<16>().ok_or_else(not_ours)?;
        let mut parts = names.splitn(2, |byte| *byte == PART_END);
        let mut part = || {
            parts
                .next()
                .and_then(|bytes| std::str::from_utf8(bytes).ok())
        };
        let (Some(kind), Some(id)) = (part(), part()) else {
            return Err(not_ours());
        };
        let kind = Kind::parse(kind).map_err(|_| not_ours())?;
        let resource = ResourceId::new(kind, id).map_err(|_| not_ours())?;
        Ok(Self {
            resource,
            round: Nonce(*nonce),
            several,
        })
    }

    /// The resource that is held; of several the first in order.
    pub fn resource(&self) -> &ResourceId {
        &self.resource
    }

    /// Whether it names a round of several resources.
    pub fn is_of_several(&self) -> bool {
        self.several
    }

    /// Which round it is.
    pub fn round(&self) -> Nonce {
        self.round
    }
}

impl fmt::Display for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.resource.kind.as_str();
        let id = self.resource.id();
        let mut bytes = Vec::with_capacity(16 + kind.len() + 1 + id.len());
        bytes.extend_from_slice(&self.round.0);
        bytes.extend_from_slice(kind.as_bytes());
        bytes.push(PART_END);
        bytes.extend_from_slice(id.as_bytes());
        let prefix = if self.several {
            SEVERAL_ID_PREFIX
        } else {
            RESERVATION_ID_PREFIX
        };
        write!(f, "{prefix}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::RESOURCE_ID_BYTES_MAX;
    use super::*;

    fn resource(id: &str) -> ResourceId {
        ResourceId::new(Kind::parse("order").unwrap(), id).unwrap()
    }

    #[test]
    fn every_id_up_to_the_limit_survives_a_reservation_id() {
        let longest = "x".repeat(RESOURCE_ID_BYTES_MAX);
        for id in [
            "1",
            "a/b",
            "..",
            "/lead",
            " ",
            "a\nb",
            "🦀",
            "order%2F1",
            longest.as_str(),
        ] {
            let alone = ReservationId::new(resource(id), Nonce([7; 16]));
            let several = ReservationId::of_several(resource(id), Nonce([7; 16]));
            assert_ne!(alone, several);
            for reservation in [alone, several] {
                assert_eq!(
                    ReservationId::parse(&reservation.to_string()).as_ref(),
                    Ok(&reservation),
                    "{id:?}"
                );
            }
        }
    }

    #[test]
    fn texts_that_are_no_reservation_ids_are_refused() {
        for text in [
            "",
            "r1.",
            "s1.",
            "r1.!!!",
            "x",
            "r2.AAAA",
            &"r1.A".repeat(999),
        ] {
            assert!(ReservationId::parse(text).is_err(), "{text:?}");
        }
    }
}
