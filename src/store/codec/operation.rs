//! Finished operations, digests and results.

use bytes::Bytes;

use super::claim;
use super::{field, maybe_nonce, maybe_state, missing, nonce, nonce_bytes};
use crate::domain::decision::{Rule, Verdict};
use crate::domain::digest::{ContentDigest, DigestScheme};
use crate::domain::ids::{OperationId, StateName};
use crate::domain::incident::{verdict_code, verdict_from_code};
use crate::domain::invalid::Invalid;
use crate::domain::outcome::StoredResult;
use crate::domain::record::{Operation, Raised};
use crate::proto::store_v1 as pb;

pub(super) fn to_message(operation: &Operation) -> pb::Operation {
    pb::Operation {
        id: operation.id.as_str().to_owned(),
        digest: Some(digest_to_message(&operation.digest)),
        verdict: verdict_code(operation.verdict).into(),
        rule: operation.rule.as_str().to_owned(),
        result: (!operation.result.is_empty()).then(|| result_to_message(&operation.result)),
        time_ms: operation.time_ms,
        nonce: nonce_bytes(operation.nonce),
        round: operation.round.map(nonce_bytes).unwrap_or_default(),
        state: state_text(operation.state.as_ref()),
        expected: operation
            .expected
            .iter()
            .map(|state| state.as_str().to_owned())
            .collect(),
        raised: operation.raised.bits(),
        claim: operation.resolved.as_deref().map(|resolved| pb::Claim {
            resolution: Some(claim::resolution_to_message(resolved)),
            ..pb::Claim::default()
        }),
    }
}

pub(super) fn from_message(message: pb::Operation) -> Result<Operation, Invalid> {
    Ok(Operation {
        id: field("operation.id", OperationId::parse(&message.id))?,
        digest: digest_from_message("operation.digest", message.digest)?
            .ok_or_else(|| missing("operation.digest"))?,
        verdict: verdict("operation.verdict", message.verdict)?,
        rule: rule("operation.rule", &message.rule)?,
        result: match message.result {
            Some(result) => result_from_message("operation.result", result)?,
            None => StoredResult::default(),
        },
        time_ms: message.time_ms,
        nonce: nonce("operation.nonce", &message.nonce)?,
        round: maybe_nonce("operation.round", &message.round)?,
        state: maybe_state("operation.state", &message.state)?,
        expected: message
            .expected
            .iter()
            .map(|state| field("operation.expected", StateName::parse(state)))
            .collect::<Result<_, _>>()?,
        raised: Raised::from_bits(message.raised),
        resolved: message
            .claim
            .and_then(|claim| claim.resolution)
            .map(claim::resolution_from_message)
            .transpose()?,
    })
}

pub(super) fn state_text(state: Option<&StateName>) -> String {
    state
        .map(|state| state.as_str().to_owned())
        .unwrap_or_default()
}

pub(super) fn verdict(name: &str, code: u32) -> Result<Verdict, Invalid> {
    u8::try_from(code)
        .ok()
        .and_then(verdict_from_code)
        .ok_or_else(|| Invalid::new(format!("{name} is {code}, which is no verdict")))
}

pub(super) fn rule(name: &str, text: &str) -> Result<Rule, Invalid> {
    Rule::parse(text)
        .ok_or_else(|| Invalid::new(format!("{name} is {text:?}, which is no known rule")))
}

pub(super) fn digest_to_message(digest: &ContentDigest) -> pb::Digest {
    pb::Digest {
        scheme: digest.scheme().code().into(),
        bytes: Bytes::copy_from_slice(digest.bytes()),
    }
}

pub(super) fn digest_from_message(
    name: &str,
    message: Option<pb::Digest>,
) -> Result<Option<ContentDigest>, Invalid> {
    let Some(message) = message else {
        return Ok(None);
    };
    let scheme = u8::try_from(message.scheme)
        .ok()
        .and_then(DigestScheme::from_code)
        .ok_or_else(|| {
            Invalid::new(format!(
                "{name} has scheme {}, which is unknown",
                message.scheme
            ))
        })?;
    let len = message.bytes.len();
    ContentDigest::from_parts(scheme, message.bytes)
        .map(Some)
        .ok_or_else(|| {
            Invalid::new(format!(
                "{name} is {len} bytes long, which its scheme never makes"
            ))
        })
}

pub(super) fn result_to_message(result: &StoredResult) -> pb::Result {
    pb::Result {
        body: result.body.clone(),
        code: result.code,
        content_type: result.content_type.clone(),
        headers: result
            .headers
            .iter()
            .map(|(name, value)| pb::Header {
                name: name.clone(),
                value: value.clone(),
            })
            .collect(),
    }
}

pub(super) fn result_from_message(
    name: &str,
    message: pb::Result,
) -> Result<StoredResult, Invalid> {
    let result = StoredResult {
        body: message.body,
        code: message.code,
        content_type: message.content_type,
        headers: message
            .headers
            .into_iter()
            .map(|header| (header.name, header.value))
            .collect(),
    };
    // The reason begins with the name of the part, such as `.body`.
    result
        .checked()
        .map_err(|invalid| Invalid::new(format!("{name}{invalid}")))
}
