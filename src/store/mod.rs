//! How decisions are kept in etcd. The only place, beside the embedded engine, that names `etcd_client`.

mod codec;
pub mod commit;
mod endpoint;
pub mod error;
mod failure;
mod keep_alive;
mod keys;
mod lease;
pub mod link;
mod machine;
mod session;
mod timeline;
mod txn;
mod watch;

pub use commit::{
    BatchOutcome, Commit, MachineGuard, MemberOutcome, ReadAsk, ReservationGuard, ReservationWrite,
    Seen, SeenReservation,
};
pub use endpoint::Endpoint;
pub use error::{NotApplied, StoreError};
pub use keys::{PREFIX_BYTES_MAX, PREFIX_DEFAULT, Prefix};
pub use link::{Store, StoreOptions};
pub use machine::{Found, InForceAt, MachineNews, MachineWatch};
pub use txn::{
    BATCH_BYTES_BACK_MAX, BATCH_BYTES_MAX, BATCH_MEMBERS_MAX, BATCH_OPERATIONS_MAX, Batch,
    Prepared, READ_OPERATIONS_MAX,
};
