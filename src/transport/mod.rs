//! The door for callers: gRPC and JSON on one port, one code behind both.
//!
//! A request passes the [`gate`] (arrival clock, room, deadline, size), is decoded by gRPC or [`json`], then the same
//! [`calls`] read it by [`convert`], ask the engine and put the answer in the words of the wire. What has no answer becomes
//! a status in the one table of [`status`].

mod beside;
mod calls;
mod coding;
mod convert;
mod door;
mod gate;
mod grpc;
mod json;
mod operator;
pub mod rfc3339;
mod status;
mod streams;
mod suspects;
mod timeouts;
mod untaken;

pub use calls::EngineSlot;
pub use door::{AdminDoor, Door, Peer};
pub use gate::Gate;
pub use untaken::{ANSWER_TAKEN_WITHIN, Untaken};

/// Largest message, in bytes: the largest content (1 MiB), the largest result (64 KiB and 8 KiB of headers), and names.
pub const MESSAGE_BYTES_MAX: usize = 1_310_720;
/// Largest JSON body, in bytes: the largest message with its bytes in base64, which makes four of three.
pub const JSON_BODY_BYTES_MAX: usize = MESSAGE_BYTES_MAX / 3 * 4 + 64 * 1024;
const _: () = assert!(
    crate::domain::digest::CONTENT_BYTES_MAX
        + crate::domain::outcome::RESULT_BODY_BYTES_MAX
        + crate::domain::outcome::HEADERS_BYTES_MAX
        + 64 * 1024
        <= MESSAGE_BYTES_MAX
);
