//! Incidents with their parts: listed, shown and changed.

use etcd_client::proto::PbKeyValue;

use super::codec;
use super::error::{NotApplied, StoreError};
use super::failure::not_applied;
use super::keys::just_after;
use super::link::Store;
use super::session::Repeat;
use super::txn;
use crate::domain::decision::IncidentId;
use crate::domain::incident::{EVIDENCE_SHOWN_MAX, Evidence, Incident, IncidentFilter};
use crate::domain::token::Revision;

/// Most keys of incidents that one request to etcd asks for. With the largest evidence they fit into a reply.
const KEYS_PER_REQUEST: usize = 128;
/// Most keys that are looked at for one page; a page under a filter may end before it is full.
pub const KEYS_PER_PAGE_MAX: usize = 4 * 1024;
/// A page that has grown to so many bytes takes no more incidents.
pub const PAGE_BYTES_MAX: usize = 2 * 1024 * 1024;
/// How often a change is tried again because somebody else changed the incident first.
const CHANGES_MAX: usize = 8;

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
        let mut whole: Option<Whole> = None;
        let mut bytes: usize = 0;
        let mut looked_at: usize = 0;
        if limit == 0 {
            return Ok(page);
        }
        loop {
            // One more than fits shows whether the last one is complete.
            let asked = KEYS_PER_REQUEST.min(limit - page.incidents.len() + 1);
            let found = self.range(start, end.clone(), asked).await?;
            let all = found.len() < asked;
            looked_at += found.len();
            start = found
                .last()
                .map_or_else(Vec::new, |kv| just_after(kv.key.clone()));
            for (incident, _) in found.iter().filter_map(|kv| self.trusted_incident(kv)) {
                if incident.is_a_part() {
                    if let Some(whole) = whole.as_mut() {
                        whole.absorb(incident, 0);
                    }
                    continue;
                }
                let Some(complete) = whole.replace(Whole::of(incident, 0)) else {
                    continue;
                };
                let id = complete.incident.id.clone();
                bytes += complete.incident.size();
                page.incidents.extend(complete.passed(filter));
                let full = page.incidents.len() == limit || bytes >= PAGE_BYTES_MAX;
                if full || looked_at >= KEYS_PER_PAGE_MAX {
                    page.next = Some(id);
                    return Ok(page);
                }
            }
            if all {
                break;
            }
        }
        let last = whole.and_then(|whole| whole.passed(filter));
        page.incidents.extend(last);
        Ok(page)
    }

    /// One incident, with its evidence behind the first `skip` pieces, as much as is shown at once.
    pub async fn incident(
        &self,
        id: &IncidentId,
        skip: usize,
    ) -> Result<Option<Incident>, StoreError> {
        let found = self.whole_incident(id, skip).await?;
        Ok(found.map(|(whole, _)| whole.incident))
    }

    /// Changes an incident: what counts as its first report stays. `change` may be asked several times, and says `None` to
    /// leave it as it is. `None`: there is no such incident.
    pub async fn change_incident(
        &self,
        id: &IncidentId,
        mut change: impl FnMut(Incident) -> Option<Incident>,
    ) -> Result<Option<Incident>, StoreError> {
        let key = self.keys().incident(id);
        for _ in 0..CHANGES_MAX {
            let Some((whole, seen)) = self.whole_incident(id, 0).await? else {
                return Ok(None);
            };
            let Some(changed) = change(whole.incident.clone()) else {
                return Ok(Some(whole.incident));
            };
            // The parts have keys of their own; only the whole's own evidence is written with it.
            let written = Incident {
                evidence: whole.own,
                ..changed.clone()
            };
            let value = codec::encode_incident(&key, &written);
            let build = || txn::put_if_unchanged(&key, seen, value.clone());
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

    async fn whole_incident(
        &self,
        id: &IncidentId,
        skip: usize,
    ) -> Result<Option<(Whole, Revision)>, StoreError> {
        let (mut start, end) = self.keys().incident_with_parts(id);
        let mut whole: Option<(Whole, Revision)> = None;
        loop {
            let found = self.range(start, end.clone(), KEYS_PER_REQUEST).await?;
            for (incident, revision) in found.iter().filter_map(|kv| self.trusted_incident(kv)) {
                match whole.as_mut() {
                    None if incident.id == *id => {
                        whole = Some((Whole::of(incident, skip), revision));
                    }
                    Some((whole, _)) if incident.is_part_of(id) => whole.absorb(incident, skip),
                    Some(_) | None => {}
                }
            }
            match found.last() {
                Some(last) if found.len() == KEYS_PER_REQUEST => {
                    start = just_after(last.key.clone());
                }
                Some(_) | None => return Ok(whole),
            }
        }
    }

    fn trusted_incident(&self, kv: &PbKeyValue) -> Option<(Incident, Revision)> {
        let Some((key, id)) = self.keys().found_incident(&kv.key) else {
            let key = kv.key.escape_ascii();
            tracing::warn!(%key, "a foreign key among the incidents is passed over");
            return None;
        };
        let incident = codec::decode_incident(&key, &id, &kv.value)
            .inspect_err(|error| tracing::error!(%error, "an incident is passed over"))
            .ok()?;
        Some((incident, Revision::from_etcd(kv.mod_revision)?))
    }
}

/// An incident while its parts are put together.
struct Whole {
    incident: Incident,
    /// The evidence in its own key.
    own: Vec<Evidence>,
    /// Where that evidence would stand as a part. A commit whose reply was lost may have put it there too.
    own_part: Option<IncidentId>,
    seen: usize,
}

impl Whole {
    fn of(mut incident: Incident, skip: usize) -> Self {
        let own = incident.evidence.clone();
        let seen = own.len();
        if skip > 0 {
            incident.more_evidence = incident.evidence.len();
            incident.evidence.clear();
        }
        Self {
            own_part: Incident {
                evidence: own.clone(),
                ..incident.clone()
            }
            .part(),
            own,
            incident,
            seen,
        }
    }

    fn absorb(&mut self, part: Incident, skip: usize) {
        if self.own_part.as_ref() == Some(&part.id) {
            return;
        }
        self.incident.last_ms = self.incident.last_ms.max(part.time_ms);
        for evidence in part.evidence {
            let shown = (skip..skip + EVIDENCE_SHOWN_MAX).contains(&self.seen);
            self.seen += 1;
            if shown {
                self.incident.evidence.push(evidence);
            } else {
                self.incident.more_evidence += 1;
            }
        }
    }

    fn passed(self, filter: &IncidentFilter) -> Option<Incident> {
        filter.admits(&self.incident).then_some(self.incident)
    }
}
