//! How decisions are kept in etcd. The only place, beside the embedded engine, that names `etcd_client`.

pub mod commit;
pub mod error;
pub mod link;

pub use commit::{
    Batch, BatchOutcome, Commit, MemberOutcome, Prepared, READ_OPERATIONS_MAX, ReadAsk,
    ReservationGuard, ReservationWrite, Seen, SeenReservation,
};
pub use error::StoreError;
pub use link::{Endpoint, Prefix, Store, StoreOptions};
