//! The result of an effect, in and out.

use crate::domain::outcome::{CODE_MAX, StoredResult};
use crate::engine::Fault;
use crate::proto::v1 as pb;

use super::refused;

/// Reads a result to store.
pub(super) fn from_wire(field: &str, result: pb::Result) -> Result<StoredResult, Fault> {
    let code = u32::try_from(result.code).map_err(|_| {
        refused(
            format!("{field}.code"),
            format!("is {}; it must be 0 to {CODE_MAX}", result.code),
        )
    })?;
    let given = result.sha256;
    let stored = StoredResult {
        body: result.body,
        code,
        content_type: result.content_type,
        headers: result
            .headers
            .into_iter()
            .map(|header| (header.name, header.value))
            .collect(),
    };
    let stored = stored.checked().map_err(|invalid| {
        // The reason begins with the part of the result that it is about: ".body is …".
        let reason = invalid.to_string();
        match reason.split_once(' ') {
            Some((part, rest)) if part.starts_with('.') => refused(format!("{field}{part}"), rest),
            Some(_) | None => refused(field, reason),
        }
    })?;
    if !given.is_empty() && given[..] != stored.body_sha256() {
        return Err(refused(
            format!("{field}.sha256"),
            "is not the SHA-256 of the body: what arrived is not what was sent",
        ));
    }
    Ok(stored)
}

/// Writes a stored result.
pub(super) fn to_wire(result: StoredResult) -> pb::Result {
    let stored_sha256 = result.body_sha256().to_vec().into();
    pb::Result {
        sha256: stored_sha256,
        body: result.body,
        code: i32::try_from(result.code).unwrap_or(i32::MAX),
        content_type: result.content_type,
        headers: result
            .headers
            .into_iter()
            .map(|(name, value)| pb::Header { name, value })
            .collect(),
    }
}
