//! Content digests.
