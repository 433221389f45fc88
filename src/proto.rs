//! Code generated from `proto/`, as it comes.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::as_conversions
)]

/// The interface.
pub mod v1 {
    tonic::include_proto!("fencepost.v1");
    /// The descriptors of the interface, for reflection and for the JSON door.
    pub const FILE_DESCRIPTOR_SET: &[u8] =
        include_bytes!(concat!(env!("OUT_DIR"), "/fencepost.v1.bin"));
}

/// The format of stored records.
#[allow(unreachable_pub)]
pub(crate) mod store_v1 {
    tonic::include_proto!("fencepost.store.v1");
}
