//! Following one resource: its record, and the key of its reservation, whose end by its lease the record does not show.

use super::link::Store;
use super::watch::Watch;
use crate::domain::ids::ResourceId;

impl Store {
    /// Follows a resource for ever. `changed` is called once every later change will be told, and then whenever the resource
    /// may have changed.
    pub async fn follow_resource(&self, resource: &ResourceId, changed: impl Fn() + Sync) {
        let keys = self.keys();
        let mut record = self.watch(keys.record(resource).bytes(), None);
        let mut reservation = self.watch(keys.reservation(resource).bytes(), None);
        // From what is read first, each goes on to follow without a gap.
        tokio::join!(record.next(), reservation.next());
        changed();
        tokio::join!(
            tell(&mut record, &changed),
            tell(&mut reservation, &changed)
        );
    }
}

async fn tell(watch: &mut Watch, changed: impl Fn()) {
    loop {
        watch.next().await;
        changed();
    }
}
