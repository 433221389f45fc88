//! Finished operations, digests and results.

use bytes::Bytes;

use super::claim;
use super::refer::{Names, numbered};
use super::{field, mark, missing, nonce};
use crate::domain::decision::{Rule, Verdict};
use crate::domain::digest::{ContentDigest, DigestScheme};
use crate::domain::ids::{Nonce, OperationId, StateName};
use crate::domain::incident::{verdict_code, verdict_from_code};
use crate::domain::invalid::Invalid;
use crate::domain::outcome::StoredResult;
use crate::domain::record::{Operation, Raised};
use crate::proto::store_v1 as pb;

/// The verdict that is not written.
const USUAL_VERDICT: Verdict = Verdict::Applied;
/// The rule that is not written.
const USUAL_RULE: Rule = Rule::Moved;
/// Rules that have a number, from 1 on. It never changes; the others are written by their names.
const NUMBERED_RULES: [Rule; 4] = [
    Rule::RanOnce,
    Rule::AlreadyMoved,
    Rule::Passed,
    Rule::Replaced,
];
/// Content types that have a number, from 1 on. It never changes; the others are written as they are.
const NUMBERED_TYPES: [&str; 5] = [
    "application/json",
    "application/json; charset=utf-8",
    "text/plain",
    "text/plain; charset=utf-8",
    "application/octet-stream",
];

/// An operation within a record; what it names is added to `names`, and its time counts from `since_ms`.
pub(super) fn to_message<'a>(
    operation: &'a Operation,
    names: &mut Names<'a>,
    since_ms: u64,
) -> pb::Operation {
    let result = &operation.result;
    let usual = operation.verdict == USUAL_VERDICT;
    let rule = number_in(&NUMBERED_RULES, &operation.rule);
    let content_type = number_in(&NUMBERED_TYPES, &result.content_type.as_str());
    let named_rule = rule == 0 && operation.rule != USUAL_RULE;
    pb::Operation {
        id: operation.id.as_str().to_owned(),
        digest: digest_bytes(&operation.digest),
        verdict: if usual {
            0
        } else {
            verdict_code(operation.verdict).into()
        },
        rule,
        rule_name: if named_rule {
            operation.rule.as_str().to_owned()
        } else {
            String::new()
        },
        body: result.body.clone(),
        code: result.code,
        content_type,
        content_type_name: if content_type == 0 {
            result.content_type.clone()
        } else {
            String::new()
        },
        headers: headers_to_message(result),
        time_ms: operation
            .time_ms
            .cast_signed()
            .wrapping_sub(since_ms.cast_signed()),
        mark: Bytes::copy_from_slice(operation.mark.as_bytes()),
        round: operation.round.map_or(0, |round| names.round(round)),
        state: operation
            .state
            .as_ref()
            .map_or(0, |state| names.state(state)),
        expected: operation
            .expected
            .iter()
            .map(|state| names.state(state))
            .collect(),
        raised: operation.raised.bits(),
        resolution: operation
            .resolved
            .as_deref()
            .map(claim::resolution_to_message),
    }
}

/// What [`to_message`] wrote, with the states and rounds that its numbers stand for.
pub(super) fn from_message(
    message: pb::Operation,
    states: &[StateName],
    rounds: &[Nonce],
    since_ms: u64,
) -> Result<Operation, Invalid> {
    let state = |name: &str, number| numbered(name, states, number);
    let headers = message.headers.into_iter();
    let result = StoredResult {
        body: message.body,
        code: message.code,
        content_type: match numbered(
            "operation.content_type",
            &NUMBERED_TYPES,
            message.content_type,
        )? {
            Some(known) => known.to_owned(),
            None => message.content_type_name,
        },
        headers: headers.map(|header| (header.name, header.value)).collect(),
    };
    Ok(Operation {
        id: field("operation.id", OperationId::parse(&message.id))?,
        digest: digest_from_bytes("operation.digest", &message.digest)?,
        verdict: match message.verdict {
            0 => USUAL_VERDICT,
            code => verdict("operation.verdict", code)?,
        },
        rule: match numbered("operation.rule", &NUMBERED_RULES, message.rule)? {
            Some(numbered) => numbered,
            None if message.rule_name.is_empty() => USUAL_RULE,
            None => rule("operation.rule_name", &message.rule_name)?,
        },
        result: checked("operation.result", result)?,
        time_ms: since_ms.wrapping_add(message.time_ms.cast_unsigned()),
        mark: mark("operation.mark", &message.mark)?,
        round: numbered("operation.round", rounds, message.round)?,
        state: state("operation.state", message.state)?,
        expected: message
            .expected
            .into_iter()
            .map(|number| {
                let found = state("operation.expected", number)?;
                found.ok_or_else(|| Invalid::new("operation.expected names no state"))
            })
            .collect::<Result<_, _>>()?,
        raised: Raised::from_bits(message.raised),
        resolved: message
            .resolution
            .map(claim::resolution_from_message)
            .transpose()?,
    })
}

/// An operation in a key of its own.
pub(super) fn to_message_apart(operation: &Operation) -> pb::KeptApart {
    let mut names = Names::default();
    let message = to_message(operation, &mut names, 0);
    pb::KeptApart {
        operation: Some(message),
        states: names.states_beyond(0),
        rounds: names.rounds_beyond(0),
    }
}

pub(super) fn from_message_apart(message: pb::KeptApart) -> Result<Operation, Invalid> {
    let operation = message.operation.ok_or_else(|| missing("operation"))?;
    let states = states("states", &message.states)?;
    let rounds = rounds("rounds", &message.rounds)?;
    from_message(operation, &states, &rounds, 0)
}

pub(super) fn states(name: &str, texts: &[String]) -> Result<Vec<StateName>, Invalid> {
    let parse = |text: &String| field(name, StateName::parse(text));
    texts.iter().map(parse).collect()
}

pub(super) fn rounds(name: &str, all: &[Bytes]) -> Result<Vec<Nonce>, Invalid> {
    all.iter().map(|bytes| nonce(name, bytes)).collect()
}

/// 0: it has none.
fn number_in<T: PartialEq>(known: &[T], one: &T) -> u32 {
    let at = known.iter().position(|other| other == one);
    at.and_then(|at| u32::try_from(at + 1).ok()).unwrap_or(0)
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

/// The number of the scheme, then the digest itself.
pub(super) fn digest_bytes(digest: &ContentDigest) -> Bytes {
    let mut bytes = Vec::with_capacity(1 + digest.bytes().len());
    bytes.push(digest.scheme().code());
    bytes.extend_from_slice(digest.bytes());
    bytes.into()
}

pub(super) fn digest_from_bytes(name: &str, bytes: &[u8]) -> Result<ContentDigest, Invalid> {
    let (code, digest) = bytes.split_first().ok_or_else(|| missing(name))?;
    let scheme = DigestScheme::from_code(*code)
        .ok_or_else(|| Invalid::new(format!("{name} has scheme {code}, which is unknown")))?;
    ContentDigest::from_parts(scheme, digest).ok_or_else(|| {
        let len = digest.len();
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
        headers: headers_to_message(result),
    }
}

pub(super) fn result_from_message(
    name: &str,
    message: pb::Result,
) -> Result<StoredResult, Invalid> {
    let headers = message.headers.into_iter();
    let result = StoredResult {
        body: message.body,
        code: message.code,
        content_type: message.content_type,
        headers: headers.map(|header| (header.name, header.value)).collect(),
    };
    checked(name, result)
}

fn headers_to_message(result: &StoredResult) -> Vec<pb::Header> {
    let headers = result.headers.iter();
    headers
        .map(|(name, value)| pb::Header {
            name: name.clone(),
            value: value.clone(),
        })
        .collect()
}

fn checked(name: &str, result: StoredResult) -> Result<StoredResult, Invalid> {
    // The reason begins with the name of the part, such as `.body`.
    result
        .checked()
        .map_err(|invalid| Invalid::new(format!("{name}{invalid}")))
}
