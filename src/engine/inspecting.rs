//! How a resource stands, and what is held together with it.

use super::facade::{Caller, Engine};
use super::fault::Fault;
use crate::domain::decision::Snapshot;
use crate::domain::ids::ResourceId;
use crate::domain::judge::{Answer, Ask};

impl Engine {
    /// The resource as it stands. What is held together with it is told whole, for which the resource that names the round is
    /// asked, too.
    pub async fn inspect(&self, resource: ResourceId, caller: Caller) -> Result<Snapshot, Fault> {
        let mut snapshot = self.inspect_alone(resource, caller).await?;
        let Some(live) = &mut snapshot.live else {
            return Ok(snapshot);
        };
        let lead = match live.also.first() {
            Some(first) if *first < snapshot.resource => first.clone(),
            Some(_) | None => return Ok(snapshot),
        };
        let led = match self.inspect_alone(lead.clone(), caller).await {
            Ok(led) => led.live,
            // What is wrong with that one is no reason not to show this one.
            Err(Fault::CorruptRecord) => None,
            Err(fault) => return Err(fault),
        };
        // If it is another by now, the round is over: what was told of it is all there is.
        if let Some(led) = led.filter(|led| led.token == live.token) {
            let others = std::iter::once(lead).chain(led.also);
            live.also = others.filter(|other| *other != snapshot.resource).collect();
        }
        Ok(snapshot)
    }

    /// The resource as it stands, as its own record tells it.
    pub(super) async fn inspect_alone(
        &self,
        resource: ResourceId,
        caller: Caller,
    ) -> Result<Snapshot, Fault> {
        match self.ask_within(&resource, Ask::Inspect, caller).await? {
            Answer::Snapshot(snapshot) => Ok(snapshot),
            other @ (Answer::Judged(_)
            | Answer::Ended(..)
            | Answer::Held(..)
            | Answer::Known(..)
            | Answer::Swept) => {
                unreachable!("an inspection is answered by a snapshot, not by {other:?}")
            }
        }
    }
}
