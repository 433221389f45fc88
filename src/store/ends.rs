//! The ends of reservations, as soon as etcd tells of them: released, wherever that was, or run out.

use super::link::Store;
use super::watch::News;
use crate::domain::ids::ResourceId;

impl Store {
    /// Tells for ever which resources' reservations end. It is a hint: some may be missed while etcd cannot be reached, and by
    /// the time that it is told the resource may be held again.
    pub async fn follow_ends(&self, ended: impl Fn(&ResourceId)) {
        let keys = self.keys();
        let (start, end) = keys.reservations();
        let mut watch = self.watch_ends(start, end);
        loop {
            match watch.next().await {
                // It begins, or begins anew.
                News::All(_) => {}
                News::Changes(changes) => {
                    let gone = changes.iter().filter(|change| change.value.is_none());
                    for resource in gone.filter_map(|gone| keys.found_reservation(&gone.key)) {
                        ended(&resource);
                    }
                }
            }
        }
    }
}
