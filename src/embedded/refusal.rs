//! Every way the engine says no, with etcd's own code and words.

use tonic::{Code, Status};

/// A request etcd would refuse. Clients tell refusals apart by code and text, so both are etcd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("etcdserver: key is not provided")]
    EmptyKey,
    #[error("etcdserver: key not found")]
    KeyNotFound,
    #[error("etcdserver: value is provided")]
    ValueProvided,
    #[error("etcdserver: lease is provided")]
    LeaseProvided,
    #[error("etcdserver: too many operations in txn request")]
    TooManyOperations,
    #[error("etcdserver: duplicate key given in txn request")]
    DuplicateKey,
    #[error("etcdserver: invalid sort option")]
    InvalidSortOption,
    #[error("etcdserver: mvcc: required revision has been compacted")]
    Compacted,
    #[error("etcdserver: mvcc: required revision is a future revision")]
    FutureRevision,
    #[error("etcdserver: requested lease not found")]
    LeaseNotFound,
    #[error("etcdserver: lease already exists")]
    LeaseExists,
    #[error("etcdserver: too large lease TTL")]
    LeaseTtlTooLarge,
    #[error("etcdserver: request is too large")]
    RequestTooLarge,
    #[error("grpc: received message larger than max ({bytes} vs. {limit})")]
    MessageTooLarge { bytes: usize, limit: usize },
}

impl Refusal {
    fn code(self) -> Code {
        match self {
            Self::EmptyKey
            | Self::KeyNotFound
            | Self::ValueProvided
            | Self::LeaseProvided
            | Self::TooManyOperations
            | Self::DuplicateKey
            | Self::InvalidSortOption
            | Self::RequestTooLarge => Code::InvalidArgument,
            Self::Compacted | Self::FutureRevision | Self::LeaseTtlTooLarge => Code::OutOfRange,
            Self::LeaseNotFound => Code::NotFound,
            Self::LeaseExists => Code::FailedPrecondition,
            Self::MessageTooLarge { .. } => Code::ResourceExhausted,
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        Status::new(refusal.code(), refusal.to_string())
    }
}
