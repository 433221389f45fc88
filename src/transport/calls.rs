//! The calls themselves, the same behind gRPC and JSON.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::domain::ids::{EventName, Kind};
use crate::engine::{Counted, Engine, Fault, Following, Hold};
use crate::proto::v1 as pb;

use super::convert::ask::{Moving, Reserving};
use super::convert::page::Page;
use super::convert::queue::Told;
use super::convert::{
    answer, ask, counts, incident, machine, machine_page, queue, story, stream, timeline, wait,
};
use super::gate::Origin;
use super::suspects::Suspects;

/// When to ask again while etcd has not answered yet.
const NOT_READY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// The engine, once there is one: the port is open, and health is answered, before etcd has proved itself.
#[derive(Clone, Debug, Default)]
pub struct EngineSlot(Arc<OnceLock<Engine>>);

impl EngineSlot {
    /// From now on calls are answered.
    pub fn fill(&self, engine: Engine) {
        // Only the start fills it, once; a second engine would have its own table of leases.
        assert!(self.0.set(engine).is_ok(), "the engine was started twice");
    }

    fn get(&self) -> Result<&Engine, Fault> {
        self.0.get().ok_or(Fault::StoreUnavailable {
            retry_after: NOT_READY_RETRY_AFTER,
        })
    }
}

/// The calls.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    engine: EngineSlot,
    suspects: Suspects,
}

impl Calls {
    pub(super) fn new(engine: EngineSlot) -> Self {
        Self {
            engine,
            suspects: Suspects::default(),
        }
    }

    /// What of a content counts, and how long a claim lasts, as far as is known before a request is judged.
    fn counting(&self) -> impl FnOnce(&Kind, Option<&EventName>) -> Counted + Send + 'static {
        let slot = self.engine.clone();
        // Without an engine nothing is judged.
        move |kind, event| {
            let engine = slot.get();
            engine.map_or_else(|_| Counted::default(), |engine| engine.counted(kind, event))
        }
    }

    pub(super) async fn reserve(
        &self,
        request: pb::ReserveRequest,
        origin: &Origin,
    ) -> Result<pb::ReserveResponse, Fault> {
        let peer = origin.peer.clone();
        let wait = wait::of_reserve(&request)?;
        let slowly = ask::reserve_is_slow(&request);
        let counted = self.counting();
        let ask = read(origin, slowly, move || {
            ask::reserve(request, peer.as_str(), counted)
        })
        .await?;
        if let Some((resource, intent)) = ask.intent() {
            self.suspects.look_at(resource, intent);
        }
        let engine = self.engine.get()?;
        let caller = origin.caller_waiting(wait);
        let reserved = match ask {
            Reserving::New(ask) => engine.reserve_or_wait(ask, wait, caller).await?,
            Reserving::Together(ask) => engine.reserve_together_or_wait(ask, wait, caller).await?,
            Reserving::Ride(ask) => engine.ride_or_wait(*ask, wait, caller).await?,
        };
        Ok(answer::reserved(reserved))
    }

    pub(super) async fn transition(
        &self,
        request: pb::TransitionRequest,
        origin: &Origin,
    ) -> Result<pb::TransitionResponse, Fault> {
        let wait = wait::of_transition(&request)?;
        let counted = self.counting();
        let slowly = ask::transition_is_slow(&request);
        let peer = origin.peer.clone();
        let ask = read(origin, slowly, move || {
            ask::transition(request, peer.as_str(), counted)
        })
        .await?;
        if let Some((resource, intent)) = ask.intent() {
            self.suspects.look_at(resource, intent);
        }
        let engine = self.engine.get()?;
        let decision = match ask {
            Moving::Message(ask) => {
                let caller = origin.caller_waiting(wait);
                engine.transition_or_wait(*ask, wait, caller).await?
            }
            Moving::Claim(ask) => engine.complete(ask, origin.caller).await?,
        };
        Ok(pb::TransitionResponse {
            decision: Some(answer::decision(decision)),
        })
    }

    pub(super) async fn fence(
        &self,
        request: pb::FenceRequest,
        origin: &Origin,
    ) -> Result<pb::FenceResponse, Fault> {
        let ask = ask::fence(request)?;
        let decision = self.engine.get()?.fence(ask, origin.caller).await?;
        Ok(pb::FenceResponse {
            decision: Some(answer::decision(decision)),
        })
    }

    pub(super) async fn renew(
        &self,
        request: pb::RenewRequest,
        origin: &Origin,
    ) -> Result<pb::RenewResponse, Fault> {
        let reservation = ask::renew(request)?;
        let renewed = self.engine.get()?.renew(reservation, origin.caller).await?;
        Ok(answer::renewed(renewed))
    }

    pub(super) async fn release(
        &self,
        request: pb::ReleaseRequest,
        origin: &Origin,
    ) -> Result<pb::ReleaseResponse, Fault> {
        let (reservation, left) = ask::release(request)?;
        let engine = self.engine.get()?;
        let decision = engine.release(reservation, left, origin.caller).await?;
        Ok(pb::ReleaseResponse {
            decision: Some(answer::decision(decision)),
        })
    }

    pub(super) async fn lookup(
        &self,
        request: pb::LookupRequest,
        origin: &Origin,
    ) -> Result<pb::LookupResponse, Fault> {
        let wait = wait::of_lookup(&request)?;
        let (resource, ask) = ask::lookup(request)?;
        let engine = self.engine.get()?;
        let caller = origin.caller_waiting(wait);
        let known = engine.lookup_or_wait(resource, ask, wait, caller).await?;
        Ok(answer::known(known))
    }

    pub(super) async fn inspect(
        &self,
        request: pb::InspectRequest,
        origin: &Origin,
    ) -> Result<pb::InspectResponse, Fault> {
        let (resource, with_queue) = ask::inspect(request)?;
        let engine = self.engine.get()?;
        let snapshot = engine.inspect(resource.clone(), origin.caller).await?;
        let waiting = if with_queue {
            Some(engine.who_waits(&resource, origin.caller).await?)
        } else {
            None
        };
        Ok(pb::InspectResponse {
            snapshot: Some(answer::snapshot(snapshot)),
            queue: waiting.map(|waiting| queue::to_wire(waiting, Told::Callers)),
        })
    }

    pub(super) async fn hold(
        &self,
        request: pb::HoldRequest,
        origin: &Origin,
    ) -> Result<Hold, Fault> {
        let (reservations, at_close) = stream::hold(&request)?;
        let engine = self.engine.get()?;
        engine.hold(reservations, at_close, origin.caller).await
    }

    pub(super) async fn watch(
        &self,
        request: pb::WatchRequest,
        origin: &Origin,
    ) -> Result<Following, Fault> {
        let (resource, after) = stream::watch(request)?;
        let engine = self.engine.get()?;
        engine.follow(resource, after, origin.caller).await
    }

    pub(super) fn get_counts(&self) -> Result<pb::GetCountsResponse, Fault> {
        let engine = self.engine.get()?;
        let (since_ms, all) = engine.counts();
        let load = counts::Load {
            narrow_keys: engine.narrow_keys(),
            waiters: engine.waiters(),
            places: engine.places(),
            holdings: engine.holdings(),
        };
        Ok(counts::told(since_ms, all, &load))
    }

    pub(super) async fn list_incidents(
        &self,
        request: pb::ListIncidentsRequest,
        origin: &Origin,
    ) -> Result<pb::ListIncidentsResponse, Fault> {
        let page = Page::parse(&request)?;
        let engine = self.engine.get()?;
        let after = page.after.clone();
        let found = engine.incidents(after, page.size, &page.filter, origin.caller);
        Ok(page.answer(found.await?))
    }

    pub(super) async fn get_incident(
        &self,
        request: pb::GetIncidentRequest,
        origin: &Origin,
    ) -> Result<pb::GetIncidentResponse, Fault> {
        let (id, skip) = incident::get(&request)?;
        let engine = self.engine.get()?;
        let found = engine.incident(&id, skip, origin.caller).await?;
        Ok(pb::GetIncidentResponse {
            incident: Some(incident::to_wire(found)),
        })
    }

    pub(super) async fn close_incident(
        &self,
        request: pb::CloseIncidentRequest,
        origin: &Origin,
    ) -> Result<pb::CloseIncidentResponse, Fault> {
        let (id, by, reason) = incident::close(&request, origin.peer.as_str())?;
        let engine = self.engine.get()?;
        let (closed, before) = engine.close_incident(id, by, reason, origin.caller).await?;
        Ok(incident::closed(closed, before))
    }

    pub(super) async fn apply_machine(
        &self,
        request: pb::ApplyMachineRequest,
        origin: &Origin,
    ) -> Result<pb::ApplyMachineResponse, Fault> {
        let engine = self.engine.get()?;
        let applied = engine.apply_machine(request.source, origin.caller).await?;
        Ok(machine::applied(applied))
    }

    pub(super) async fn list_machines(
        &self,
        request: pb::ListMachinesRequest,
        origin: &Origin,
    ) -> Result<pb::ListMachinesResponse, Fault> {
        let page = machine_page::Page::in_force(&request)?;
        let (machines, next_page_token) = self.machine_page(page, origin).await?;
        Ok(pb::ListMachinesResponse {
            machines,
            next_page_token,
        })
    }

    pub(super) async fn get_machine(
        &self,
        request: pb::GetMachineRequest,
        origin: &Origin,
    ) -> Result<pb::GetMachineResponse, Fault> {
        let (kind, version) = machine::which(&request)?;
        let engine = self.engine.get()?;
        let found = engine
            .machine(kind.clone(), version, origin.caller)
            .await?
            .ok_or_else(|| machine::none(&kind, version))?;
        Ok(pb::GetMachineResponse {
            machine: Some(machine::whole(&found)),
        })
    }

    pub(super) async fn list_machine_versions(
        &self,
        request: pb::ListMachineVersionsRequest,
        origin: &Origin,
    ) -> Result<pb::ListMachineVersionsResponse, Fault> {
        let page = machine_page::Page::of_versions(&request)?;
        let (machines, next_page_token) = self.machine_page(page, origin).await?;
        Ok(pb::ListMachineVersionsResponse {
            machines,
            next_page_token,
        })
    }

    async fn machine_page(
        &self,
        page: machine_page::Page,
        origin: &Origin,
    ) -> Result<(Vec<pb::Machine>, String), Fault> {
        let engine = self.engine.get()?;
        let (list, after) = (page.list.clone(), page.after.clone());
        let found = engine.machine_page(list, after, page.size, origin.caller);
        Ok(page.answer(&found.await?))
    }

    pub(super) async fn explain_resource(
        &self,
        request: pb::ExplainResourceRequest,
        origin: &Origin,
    ) -> Result<pb::ExplainResourceResponse, Fault> {
        let (resource, operation) = story::which(request)?;
        let engine = self.engine.get()?;
        let told = engine.explain(resource, operation, origin.caller).await?;
        Ok(story::to_wire(told))
    }

    pub(super) async fn resolve_operation(
        &self,
        request: pb::ResolveOperationRequest,
        origin: &Origin,
    ) -> Result<pb::ResolveOperationResponse, Fault> {
        let ask = ask::resolve(request)?;
        let decision = self.engine.get()?.resolve(ask, origin.caller).await?;
        Ok(pb::ResolveOperationResponse {
            decision: Some(answer::decision(decision)),
        })
    }

    pub(super) async fn start_timeline(
        &self,
        request: pb::StartTimelineRequest,
        origin: &Origin,
    ) -> Result<pb::StartTimelineResponse, Fault> {
        let ask = timeline::start(&request, origin.peer.as_str())?;
        let started = self
            .engine
            .get()?
            .start_timeline(ask, origin.caller)
            .await?;
        Ok(timeline::started(&started))
    }

    pub(super) async fn get_timeline(
        &self,
        origin: &Origin,
    ) -> Result<pb::GetTimelineResponse, Fault> {
        let now = self.engine.get()?.timeline_now(origin.caller).await?;
        Ok(timeline::now(&now))
    }
}

/// Reads a request; one whose content is large on a thread of its own, when it is its turn.
async fn read<T: Send + 'static>(
    origin: &Origin,
    slowly: bool,
    reading: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    if !slowly {
        return reading();
    }
    let turn = Arc::clone(&origin.slow_digests).acquire_owned();
    let turn = tokio::time::timeout(origin.caller.deadline.left(), turn).await;
    let turn = turn.map_err(|_| Fault::DeadlinePassed)?;
    let reading = tokio::task::spawn_blocking(move || {
        let read = reading();
        // Kept to the end, also if the caller has gone.
        drop(turn);
        read
    });
    // The reader does not panic; a runtime that ends drops it.
    reading.await.map_err(|_| Fault::Stopping {
        retry_after: NOT_READY_RETRY_AFTER,
    })?
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::super::door::Peer;
    use super::super::timeouts::Said;
    use super::*;
    use crate::engine::{Boottime, Caller};

    #[tokio::test]
    async fn a_large_content_waits_for_its_turn_no_longer_than_its_deadline() {
        let calls = Calls {
            engine: EngineSlot::default(),
            suspects: Suspects::default(),
        };
        let ask = |bytes: usize, turns: usize| {
            let mut json = vec![b' '; bytes];
            json.push(b'1');
            let intent = pb::Intent {
                operation_id: "pay".to_owned(),
                content: Some(pb::intent::Content::Json(json.into())),
                ..Default::default()
            };
            let request = pb::TransitionRequest {
                resource: Some(pb::Resource {
                    kind: "order".to_owned(),
                    id: "1".to_owned(),
                }),
                intent: Some(intent),
                ..Default::default()
            };
            let arrived = Boottime::now();
            let deadline = arrived.plus(Duration::from_millis(50));
            let origin = Origin {
                caller: Caller { arrived, deadline },
                said: Said::within(Duration::from_millis(50)),
                peer: Peer::unix(),
                slow_digests: Arc::new(Semaphore::new(turns)),
            };
            let calls = calls.clone();
            async move { calls.transition(request, &origin).await }
        };
        // Without an engine, what was read is told that there is none yet.
        let read = Fault::StoreUnavailable {
            retry_after: NOT_READY_RETRY_AFTER,
        };
        assert_eq!(ask(1_000_000, 0).await, Err(Fault::DeadlinePassed));
        assert_eq!(ask(1_000, 0).await, Err(read.clone()));
        assert_eq!(ask(100_000, 1).await, Err(read));
    }
}
