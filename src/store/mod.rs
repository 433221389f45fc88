//! How decisions are kept in etcd. The only place, beside the embedded engine, that names `etcd_client`.

pub mod clock;
mod codec;
pub mod commit;
mod endpoint;
pub mod error;
mod failure;
mod incidents;
mod keep_alive;
mod keys;
mod lease;
pub mod link;
mod login;
mod machine;
mod resource_watch;
mod session;
mod story;
pub mod sweep;
mod timeline;
mod tls;
mod txn;
mod version;
mod watch;

pub use clock::StoredClock;
pub use commit::{
    BatchOutcome, Commit, MachineGuard, MemberOutcome, ReadAsk, ReservationGuard, ReservationWrite,
    Seen, SeenReservation,
};
pub use endpoint::Endpoint;
pub use error::{NotApplied, StoreError};
pub use incidents::{IncidentPage, KEYS_PER_PAGE_MAX, PAGE_BYTES_MAX};
pub use keys::{PREFIX_BYTES_MAX, PREFIX_DEFAULT, Prefix};
pub use link::{Store, StoreOptions};
pub use login::Login;
pub use machine::{Found, InForceAt, MachineNews, MachineWatch};
pub use sweep::{FoundIncident, FoundRecord, Page};
pub use tls::{Tls, TlsFault, TlsFile, TlsFiles};
pub use txn::{
    BATCH_BYTES_BACK_MAX, BATCH_BYTES_MAX, BATCH_MEMBERS_MAX, BATCH_OPERATIONS_MAX, Batch,
    Prepared, READ_OPERATIONS_MAX,
};
pub use version::{Runs, Version};
