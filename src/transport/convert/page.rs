//! Pages of incidents.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::domain::decision::IncidentId;
use crate::domain::ids::Kind;
use crate::domain::incident::IncidentFilter;
use crate::engine::{Fault, IncidentPage};
use crate::proto::v1 as pb;

use super::{at, incident, present, refused};

/// Incidents in a page, if the caller does not say.
const PAGE_SIZE_DEFAULT: usize = 50;
/// Most incidents in a page.
const PAGE_SIZE_MAX: usize = 200;
/// Longest page token, in bytes.
const PAGE_TOKEN_BYTES_MAX: usize = 512;
/// The checksum that a page token begins with, in bytes.
const CHECKSUM_BYTES: usize = 4;

/// Which page is asked for.
pub(crate) struct Page {
    /// The last incident of the page before.
    pub(crate) after: Option<IncidentId>,
    /// Which incidents.
    pub(crate) filter: IncidentFilter,
    /// At most how many.
    pub(crate) size: usize,
}

impl Page {
    /// Reads which page is asked for.
    pub(crate) fn parse(request: &pb::ListIncidentsRequest) -> Result<Self, Fault> {
        let asked = usize::try_from(request.page_size).map_err(|_| {
            refused(
                "page_size",
                format!("is {}; it must not be negative", request.page_size),
            )
        })?;
        let size = match asked {
            0 => PAGE_SIZE_DEFAULT,
            _ => asked.min(PAGE_SIZE_MAX),
        };
        let kind = present(&request.kind).map(|kind| at("kind", Kind::parse(kind)));
        let filter = IncidentFilter {
            kind: kind.transpose()?,
            open: request.open_only,
        };
        let after = match request.page_token.as_str() {
            "" => None,
            token => Some(last_of(token, &filter).ok_or_else(|| {
                refused(
                    "page_token",
                    "is not the next_page_token of an earlier page of the same list",
                )
            })?),
        };
        Ok(Self {
            after,
            filter,
            size,
        })
    }

    /// Writes the page.
    pub(crate) fn answer(&self, found: IncidentPage) -> pb::ListIncidentsResponse {
        let next = found.next.as_ref();
        pb::ListIncidentsResponse {
            next_page_token: next
                .map(|last| token_of(last, &self.filter))
                .unwrap_or_default(),
            incidents: found.incidents.into_iter().map(incident::to_wire).collect(),
        }
    }
}

/// A token is of use to its own list only: behind the same incident another filter would leave some out unseen.
fn token_of(last: &IncidentId, filter: &IncidentFilter) -> String {
    let id = last.0.as_bytes();
    URL_SAFE_NO_PAD.encode([&checksum(id, filter)[..], id].concat())
}

fn last_of(token: &str, filter: &IncidentFilter) -> Option<IncidentId> {
    if token.len() > PAGE_TOKEN_BYTES_MAX {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let (sum, id) = bytes.split_first_chunk::<CHECKSUM_BYTES>()?;
    if *sum != checksum(id, filter) {
        return None;
    }
    String::from_utf8(id.to_vec()).ok().map(IncidentId)
}

fn checksum(id: &[u8], filter: &IncidentFilter) -> [u8; CHECKSUM_BYTES] {
    let mut hash = crc32fast::Hasher::new();
    hash.update(&[u8::from(filter.open)]);
    hash.update(filter.kind.as_ref().map_or("", Kind::as_str).as_bytes());
    hash.update(&[0]);
    hash.update(id);
    hash.finalize().to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(page_token: &str, kind: &str, open_only: bool) -> Result<Page, Fault> {
        Page::parse(&pb::ListIncidentsRequest {
            page_token: page_token.to_owned(),
            kind: kind.to_owned(),
            open_only,
            ..Default::default()
        })
    }

    #[test]
    fn a_page_token_leads_on_in_its_own_list_and_nowhere_else() {
        let next = Some(IncidentId("inc-1f".to_owned()));
        let page = parsed("", "order", true).unwrap();
        let incidents = Vec::new();
        let token = page
            .answer(IncidentPage { incidents, next })
            .next_page_token;
        let after = parsed(&token, "order", true).unwrap().after;
        assert_eq!(after, Some(IncidentId("inc-1f".to_owned())));
        for (kind, open) in [("order", false), ("seat", true), ("", true)] {
            assert!(parsed(&token, kind, open).is_err(), "{kind} {open}");
        }
        let (first, rest) = token.split_at(1);
        let made_up = [
            "x".to_owned(),
            format!("A{first}{rest}"),
            rest.to_owned(),
            format!("{token}="),
            URL_SAFE_NO_PAD.encode("inc-1f"),
            "A".repeat(PAGE_TOKEN_BYTES_MAX + 1),
        ];
        for token in made_up {
            let fault = parsed(&token, "order", true).err().unwrap();
            assert!(fault.to_string().starts_with("page_token "), "{token}");
        }
    }
}
