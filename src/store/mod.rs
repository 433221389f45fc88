//! How decisions are kept in etcd. The only place, beside the embedded engine, that names `etcd_client`.

pub mod clock;
mod codec;
pub mod commit;
mod endpoint;
mod ends;
pub mod error;
mod failure;
mod held;
mod incidents;
mod keep_alive;
mod keepers;
mod keys;
mod lease;
pub mod link;
mod login;
mod lone_keep_alive;
mod machine;
mod machine_pages;
pub mod new_timeline;
mod opening;
pub mod queue;
mod resource_changes;
mod resource_watch;
mod revisions;
mod session;
mod story;
mod suspicion;
pub mod sweep;
mod term;
mod timeline;
mod tls;
mod txn;
mod version;
mod watch;
mod who_waits;

pub use clock::StoredClock;
pub use commit::{
    BatchOutcome, Commit, MachineGuard, MemberOutcome, QueueGuard, ReadAsk, ReservationGuard,
    ReservationWrite, Seen, SeenQueue, SeenReservation,
};
pub use endpoint::Endpoint;
pub use error::{NotApplied, StoreError};
pub use held::{Granted, STANDING_ASKED_MAX};
pub use incidents::{IncidentPage, KEYS_PER_PAGE_MAX, PAGE_BYTES_MAX};
pub use keepers::LeaseUse;
pub use keys::{PREFIX_BYTES_MAX, PREFIX_DEFAULT, Prefix};
pub use link::{Store, StoreOptions};
pub use login::Login;
pub use machine::{Found, InForceAt, MachineNews, MachineWatch};
pub use machine_pages::{MACHINE_BYTES_READ_MAX, MachineList, MachinePage};
pub use queue::{
    Entering, QueueChange, QueueNews, QueueNow, QueueWatch, ReservationNews, ReservationWatch,
    SessionWrite, WAITERS_PER_WRITE_MAX, WaitSession,
};
pub use resource_changes::{ResourceNews, ResourceWatch};
pub use suspicion::LOOK_LIMIT;
pub use sweep::{FoundIncident, FoundRecord, Page};
pub use term::KeptAlive;
pub use timeline::TimelineSeen;
pub use tls::{Tls, TlsFault, TlsFile, TlsFiles};
pub use txn::{
    BATCH_BYTES_BACK_MAX, BATCH_BYTES_MAX, BATCH_MEMBERS_MAX, BATCH_OPERATIONS_MAX, Batch,
    Prepared, READ_OPERATIONS_MAX,
};
pub use version::{Runs, Version};
