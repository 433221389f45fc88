//! Pages of incidents.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::domain::decision::IncidentId;
use crate::domain::incident::Incident;
use crate::engine::Fault;
use crate::proto::v1 as pb;

use super::{incident, refused};

/// Incidents in a page, if the caller does not say.
const PAGE_SIZE_DEFAULT: usize = 50;
/// Most incidents in a page.
const PAGE_SIZE_MAX: usize = 200;
/// Longest page token, in bytes.
const PAGE_TOKEN_BYTES_MAX: usize = 512;

/// Which page is asked for.
pub(crate) struct Page {
    /// The last incident of the page before.
    pub(crate) after: Option<IncidentId>,
    size: usize,
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
        let after = match request.page_token.as_str() {
            "" => None,
            token => Some(last_of(token).ok_or_else(|| {
                refused(
                    "page_token",
                    "is not the next_page_token of an earlier page",
                )
            })?),
        };
        Ok(Self { after, size })
    }

    /// How many to read: one more than fits, to learn whether this is the last page.
    pub(crate) fn to_read(&self) -> usize {
        self.size + 1
    }

    /// Writes the page.
    pub(crate) fn answer(&self, mut found: Vec<Incident>) -> pb::ListIncidentsResponse {
        let more = found.len() > self.size;
        found.truncate(self.size);
        let next = found.last().filter(|_| more);
        pb::ListIncidentsResponse {
            next_page_token: next
                .map(|last| URL_SAFE_NO_PAD.encode(&last.id.0))
                .unwrap_or_default(),
            incidents: found.into_iter().map(incident::to_wire).collect(),
        }
    }
}

fn last_of(token: &str) -> Option<IncidentId> {
    if token.len() > PAGE_TOKEN_BYTES_MAX {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    String::from_utf8(bytes).ok().map(IncidentId)
}
