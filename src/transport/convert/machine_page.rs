//! Pages of machines.

use crate::engine::{Fault, MachineList, MachinePage};
use crate::proto::v1 as pb;

use super::machine::{kind, listed};
use super::page_token;

/// Which page of a list of machines is asked for.
pub(crate) struct Page {
    /// Which list.
    pub(crate) list: MachineList,
    /// Where the page before ended.
    pub(crate) after: Option<Vec<u8>>,
    /// At most how many.
    pub(crate) size: usize,
}

impl Page {
    /// Reads which page of the machines in force is asked for.
    pub(crate) fn in_force(request: &pb::ListMachinesRequest) -> Result<Self, Fault> {
        Self::of(MachineList::InForce, request.page_size, &request.page_token)
    }

    /// Reads which page of a kind's versions is asked for.
    pub(crate) fn of_versions(request: &pb::ListMachineVersionsRequest) -> Result<Self, Fault> {
        let list = MachineList::Versions(kind(&request.kind)?);
        Self::of(list, request.page_size, &request.page_token)
    }

    fn of(list: MachineList, page_size: i32, token: &str) -> Result<Self, Fault> {
        Ok(Self {
            after: page_token::last_of(&name(&list), token)?,
            size: page_token::size(page_size)?,
            list,
        })
    }

    /// Writes the page: the machines, and the token that leads to the next.
    pub(crate) fn answer(&self, found: &MachinePage) -> (Vec<pb::Machine>, String) {
        let next = found.next.as_ref();
        let token = next.map(|last| page_token::token_of(&name(&self.list), last));
        let machines = found.machines.iter().map(listed).collect();
        (machines, token.unwrap_or_default())
    }
}

/// What tells lists apart. That of incidents begins with a number.
fn name(list: &MachineList) -> Vec<u8> {
    match list {
        MachineList::InForce => b"machines".to_vec(),
        MachineList::Versions(kind) => [b"versions ", kind.as_str().as_bytes()].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(kind: &str, token: &str) -> Result<Page, Fault> {
        Page::of_versions(&pb::ListMachineVersionsRequest {
            kind: kind.to_owned(),
            page_token: token.to_owned(),
            page_size: 0,
        })
    }

    #[test]
    fn a_token_of_one_kinds_versions_leads_on_in_no_other_list() {
        let page = MachinePage {
            next: Some(b"0000000007".to_vec()),
            ..MachinePage::default()
        };
        let (_, token) = versions("order", "").unwrap().answer(&page);
        let next = versions("order", &token).unwrap().after;
        assert_eq!(next.as_deref(), Some(&b"0000000007"[..]));
        let of_all = Page::in_force(&pb::ListMachinesRequest {
            page_token: token.clone(),
            page_size: 0,
        });
        for wrong in [versions("seat", &token), of_all, versions("order", "x")] {
            let fault = wrong.err().unwrap().to_string();
            assert!(fault.starts_with("page_token "), "{fault}");
        }
    }
}
