//! Incidents with their parts: listed, shown and changed. Evidence may be large, so it is read only where it is shown; that
//! there is some, and how much, is in the names of the parts.

use etcd_client::proto::{PbKeyValue, PbTxnOpResponse};
use etcd_client::{GetOptions, Txn, TxnOp};

use super::codec;
use super::error::{NotApplied, StoreError};
use super::failure::not_applied;
use super::keys::just_after;
use super::link::Store;
use super::session::Repeat;
use super::txn::{self, malformed, one_value};
use crate::domain::decision::IncidentId;
use crate::domain::incident::{EVIDENCE_SHOWN_MAX, Incident, IncidentFilter, KeptEvidence};
use crate::domain::token::Revision;

/// Most names of incidents that one request to etcd asks for.
const NAMES_PER_REQUEST: usize = 1024;
/// Most incidents and parts that one request asks for whole. With the largest evidence they fit into a reply.
const VALUES_PER_REQUEST: usize = 64;
/// Most keys that are looked at for one page; a page under a filter may end before it is full.
pub const KEYS_PER_PAGE_MAX: usize = 4 * 1024;
/// A page that has grown to so many bytes takes no more incidents.
pub const PAGE_BYTES_MAX: usize = 2 * 1024 * 1024;
/// How often a change is tried again because somebody else changed the incident first.
const CHANGES_MAX: usize = 8;

const _: () = assert!(EVIDENCE_SHOWN_MAX <= VALUES_PER_REQUEST);

/// Some incidents, in the order of their ids.
#[derive(Clone, Debug, Default)]
pub struct IncidentPage {
    /// They.
    pub incidents: Vec<Incident>,
    /// The last one that was looked at, if there are more behind it.
    pub next: Option<IncidentId>,
}

impl Store {
    /// Incidents behind `after`, at most `limit`, that pass the filter. Keys among them that are foreign or damaged are
    /// logged and passed over.
    pub async fn incidents(
        &self,
        after: Option<&IncidentId>,
        limit: usize,
        filter: &IncidentFilter,
    ) -> Result<IncidentPage, StoreError> {
        let (mut start, end) = self.keys().incidents_after(after);
        let mut page = IncidentPage::default();
        if limit == 0 {
            return Ok(page);
        }
        let mut named: Vec<Named> = Vec::new();
        let mut bytes: usize = 0;
        let mut looked_at: usize = 0;
        loop {
            let found = self.names(start, end.clone()).await?;
            let all = found.len() < NAMES_PER_REQUEST;
            start = found
                .last()
                .map_or_else(Vec::new, |key| just_after(key.clone()));
            for id in found.iter().filter_map(|key| self.named_incident(key)) {
                if !id.is_a_part() {
                    named.push(Named::new(id));
                } else if let Some(last) = named.last_mut().filter(|last| id.is_part_of(&last.id)) {
                    last.parts.push(id);
                }
            }
            // Parts of the last one may still come.
            let last = if all { None } else { named.pop() };
            while !named.is_empty() {
                let some = VALUES_PER_REQUEST.min(limit - page.incidents.len());
                let some: Vec<_> = named.drain(..some.min(named.len())).collect();
                for (named, outline) in self.outlines(some).await? {
                    looked_at += 1 + named.parts.len();
                    if let Some(outline) = outline.filter(|outline| outline.passes(filter)) {
                        let incident = self.shown(outline, 0).await?;
                        bytes += incident.size();
                        page.incidents.push(incident);
                    }
                    let full = page.incidents.len() == limit || bytes >= PAGE_BYTES_MAX;
                    if full || looked_at >= KEYS_PER_PAGE_MAX {
                        page.next = Some(named.id);
                        return Ok(page);
                    }
                }
            }
            if all {
                return Ok(page);
            }
            named.extend(last);
        }
    }

    /// One incident, with its evidence behind the first `skip` pieces, as much as is shown at once.
    pub async fn incident(
        &self,
        id: &IncidentId,
        skip: usize,
    ) -> Result<Option<Incident>, StoreError> {
        match self.outline(id).await? {
            Some(outline) => Ok(Some(self.shown(outline, skip).await?)),
            None => Ok(None),
        }
    }

    /// What an incident keeps as evidence; nothing, if it is not there. No part is read.
    pub async fn kept_evidence(&self, id: &IncidentId) -> Result<KeptEvidence, StoreError> {
        let mut kept = KeptEvidence::default();
        if let Some(outline) = self.outline(id).await? {
            let pieces = outline.incident.part().into_iter().chain(outline.parts);
            pieces.for_each(|piece| kept.add(piece));
        }
        Ok(kept)
    }

    /// Changes an incident: what counts as its first report stays. `change` may be asked several times, and says `None` to
    /// leave it as it is; of the evidence it gets, and this answers, only the first piece and how many more there are. `None`:
    /// there is no such incident.
    pub async fn change_incident(
        &self,
        id: &IncidentId,
        mut change: impl FnMut(Incident) -> Option<Incident>,
    ) -> Result<Option<Incident>, StoreError> {
        let key = self.keys().incident(id);
        for _ in 0..CHANGES_MAX {
            let Some(outline) = self.outline(id).await? else {
                return Ok(None);
            };
            let Some(changed) = change(outline.incident.clone()) else {
                return Ok(Some(outline.incident));
            };
            // The parts have keys of their own; only the whole's own evidence is written with it.
            let value = codec::encode_incident(&key, &changed);
            let build = || txn::put_if_unchanged(&key, outline.revision, value.clone());
            // Once only: what was counted must not be counted twice.
            let reply = self.session().txn(Repeat::Never, build).await?;
            if reply.succeeded {
                return Ok(Some(changed));
            }
        }
        Err(not_applied(
            NotApplied::Refused,
            "the incident changes all the time",
        ))
    }

    /// An incident and the names of its parts.
    async fn outline(&self, id: &IncidentId) -> Result<Option<Outline>, StoreError> {
        let key = self.keys().incident(id);
        let (start, end) = super::keys::parts_of_incident(&key.bytes());
        let limit = i64::try_from(NAMES_PER_REQUEST).unwrap_or(i64::MAX);
        let names = GetOptions::new()
            .with_range(end.clone())
            .with_limit(limit)
            .with_keys_only();
        let build = || {
            let parts = TxnOp::get(start.clone(), Some(names.clone()));
            Txn::new().and_then([TxnOp::get(key.bytes(), None), parts])
        };
        let reply = self.session().txn(Repeat::Safe, build).await?;
        let mut responses = reply.responses.into_iter();
        let own = one_value(&mut responses)?;
        let Some(PbTxnOpResponse::ResponseRange(parts)) =
            responses.next().and_then(|response| response.response)
        else {
            return Err(malformed());
        };
        let mut found: Vec<_> = parts.kvs.into_iter().map(|kv| kv.key).collect();
        let Some((incident, revision)) = own.and_then(|kv| self.trusted_incident(&kv)) else {
            return Ok(None);
        };
        let mut named = Named::new(id.clone());
        loop {
            let ids = found.iter().filter_map(|key| self.named_incident(key));
            named.parts.extend(ids.filter(|part| part.is_part_of(id)));
            match found.last() {
                Some(last) if found.len() == NAMES_PER_REQUEST => {
                    found = self.names(just_after(last.clone()), end.clone()).await?;
                }
                Some(_) | None => return Ok(Some(Outline::new(incident, revision, named.parts))),
            }
        }
    }

    /// Those of some incidents that can be trusted, each beside what it was asked by.
    async fn outlines(
        &self,
        named: Vec<Named>,
    ) -> Result<Vec<(Named, Option<Outline>)>, StoreError> {
        let ids: Vec<_> = named.iter().map(|named| named.id.clone()).collect();
        let values = self.incident_values(&ids).await?;
        let outlined = named.into_iter().zip(values).map(|(named, value)| {
            let outline = value
                .map(|(incident, revision)| Outline::new(incident, revision, named.parts.clone()));
            (named, outline)
        });
        Ok(outlined.collect())
    }

    /// An incident with as much of its evidence as is shown at once.
    async fn shown(&self, outline: Outline, skip: usize) -> Result<Incident, StoreError> {
        let shown = outline.parts_shown(skip);
        if shown.is_empty() {
            return Ok(outline.told(skip, Vec::new()));
        }
        let parts = self.incident_values(shown).await?;
        let parts = parts.into_iter().flatten().map(|(part, _)| part).collect();
        Ok(outline.told(skip, parts))
    }

    /// Incidents and parts by their names, at most `VALUES_PER_REQUEST`.
    async fn incident_values(
        &self,
        ids: &[IncidentId],
    ) -> Result<Vec<Option<(Incident, Revision)>>, StoreError> {
        let keys: Vec<_> = ids.iter().map(|id| self.keys().incident(id)).collect();
        let gets = || keys.iter().map(|key| TxnOp::get(key.bytes(), None));
        let build = || Txn::new().and_then(gets().collect::<Vec<_>>());
        let reply = self.session().txn(Repeat::Safe, build).await?;
        let mut responses = reply.responses.into_iter();
        let values = ids.iter().map(|_| {
            let value = one_value(&mut responses)?;
            Ok(value.and_then(|kv| self.trusted_incident(&kv)))
        });
        values.collect()
    }

    /// The keys of a range of incidents, without their values.
    async fn names(&self, start: Vec<u8>, end: Vec<u8>) -> Result<Vec<Vec<u8>>, StoreError> {
        let limit = i64::try_from(NAMES_PER_REQUEST).unwrap_or(i64::MAX);
        let options = GetOptions::new()
            .with_range(end)
            .with_limit(limit)
            .with_keys_only();
        let build = || Txn::new().and_then([TxnOp::get(start.clone(), Some(options.clone()))]);
        let reply = self.session().txn(Repeat::Safe, build).await?;
        let first = reply.responses.into_iter().next();
        match first.and_then(|response| response.response) {
            Some(PbTxnOpResponse::ResponseRange(found)) => {
                Ok(found.kvs.into_iter().map(|kv| kv.key).collect())
            }
            Some(
                PbTxnOpResponse::ResponsePut(_)
                | PbTxnOpResponse::ResponseDeleteRange(_)
                | PbTxnOpResponse::ResponseTxn(_),
            )
            | None => Err(malformed()),
        }
    }

    fn named_incident(&self, key: &[u8]) -> Option<IncidentId> {
        let found = self.keys().found_incident(key);
        if found.is_none() {
            let key = key.escape_ascii();
            tracing::warn!(%key, "a foreign key among the incidents is passed over");
        }
        found.map(|(_, id)| id)
    }

    fn trusted_incident(&self, kv: &PbKeyValue) -> Option<(Incident, Revision)> {
        let (key, id) = self.keys().found_incident(&kv.key)?;
        let incident = codec::decode_incident(&key, &id, &kv.value)
            .inspect_err(|error| tracing::error!(%error, "an incident is passed over"))
            .ok()?;
        Some((incident, Revision::from_etcd(kv.mod_revision)?))
    }
}

/// The name of an incident, and those of its parts.
struct Named {
    id: IncidentId,
    parts: Vec<IncidentId>,
}

impl Named {
    fn new(id: IncidentId) -> Self {
        let parts = Vec::new();
        Self { id, parts }
    }
}

/// An incident without the evidence in its parts.
struct Outline {
    /// With the evidence in its own key, and the number of the others.
    incident: Incident,
    revision: Revision,
    /// In the order of their names.
    parts: Vec<IncidentId>,
}

impl Outline {
    fn new(mut incident: Incident, revision: Revision, mut parts: Vec<IncidentId>) -> Self {
        // A commit whose reply was lost may have put the evidence in its own key there too.
        let own = incident.part();
        parts.retain(|part| own.as_ref() != Some(part));
        incident.more_evidence = parts.len();
        Self {
            incident,
            revision,
            parts,
        }
    }

    fn passes(&self, filter: &IncidentFilter) -> bool {
        filter.admits(&self.incident)
    }

    /// The parts that are shown behind the first `skip` pieces. The evidence in its own key is the first piece.
    fn parts_shown(&self, skip: usize) -> &[IncidentId] {
        let own = self.incident.evidence.len();
        let first = skip.max(own) - own;
        let end = skip.saturating_add(EVIDENCE_SHOWN_MAX) - own;
        let end = end.min(self.parts.len());
        self.parts.get(first..end).unwrap_or_default()
    }

    fn told(self, skip: usize, shown: Vec<Incident>) -> Incident {
        let mut incident = self.incident;
        let all = incident.evidence_count();
        if skip > 0 {
            incident.evidence.clear();
        }
        for part in shown {
            incident.last_ms = incident.last_ms.max(part.time_ms);
            incident.evidence.extend(part.evidence);
        }
        incident.more_evidence = all.saturating_sub(incident.evidence.len());
        incident
    }
}
