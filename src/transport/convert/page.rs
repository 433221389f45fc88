//! Pages of incidents.

use crate::domain::decision::IncidentId;
use crate::domain::ids::Kind;
use crate::domain::incident::IncidentFilter;
use crate::engine::{Fault, IncidentPage};
use crate::proto::v1 as pb;

use super::{at, incident, page_token, present, refused};

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
        let size = page_token::size(request.page_size)?;
        let kind = present(&request.kind).map(|kind| at("kind", Kind::parse(kind)));
        let filter = IncidentFilter {
            kind: kind.transpose()?,
            open: request.open_only,
        };
        let last = page_token::last_of(&name(&filter), &request.page_token)?;
        let id = |last| String::from_utf8(last).map(IncidentId);
        let id = last.map(id).transpose();
        let after = id.map_err(|_| refused("page_token", "names no incident"))?;
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
                .map(|last| page_token::token_of(&name(&self.filter), last.0.as_bytes()))
                .unwrap_or_default(),
            incidents: found.incidents.into_iter().map(incident::to_wire).collect(),
        }
    }
}

/// What tells lists apart.
fn name(filter: &IncidentFilter) -> Vec<u8> {
    let kind = filter.kind.as_ref().map_or("", Kind::as_str);
    [&[u8::from(filter.open)], kind.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::page_token::PAGE_TOKEN_BYTES_MAX;
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
