//! Finished operations, digests and results.

use bytes::Bytes;

use super::claim;
use super::refer::{Names, numbered};
use super::{field, less, mark, missing, nonce, plus};
use crate::domain::decision::{Rule, Verdict};
use crate::domain::digest::{ContentDigest, DigestScheme, FieldHashes};
use crate::domain::ids::{EventName, Mark, Nonce, OperationId, StateName};
use crate::domain::incident::{verdict_code, verdict_from_code};
use crate::domain::invalid::Invalid;
use crate::domain::machine::MachineVersion;
use crate::domain::outcome::StoredResult;
use crate::domain::record::{Deliveries, Operation, Outcome, Raised};
use crate::domain::retention::StoreTime;
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
/// Codes and content types that are often seen together and have a number, from 1 on. It never changes; the others are written as
/// they are.
const NUMBERED_HEADS: [(u32, &str); 9] = [
    (200, ""),
    (200, "application/json"),
    (0, "application/json"),
    (201, ""),
    (201, "application/json"),
    (202, ""),
    (202, "application/json"),
    (204, ""),
    (200, "application/json; charset=utf-8"),
];
/// The scheme of digests that is not written.
const USUAL_SCHEME: DigestScheme = DigestScheme::JsonV1;

/// What is known of the operation before in the record, against which the times of the next are written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before {
    time_ms: u64,
    /// How long it is kept, in seconds.
    kept_s: u64,
}

impl Before {
    /// When it was decided, in whole seconds.
    pub(super) fn time_s(self) -> u64 {
        self.time_ms / 1000
    }

    /// The next one comes after this.
    pub(super) fn then(self, operation: &Operation) -> Self {
        let time_s = operation.time_ms / 1000;
        let kept = operation.expiry.map(StoreTime::seconds);
        Self {
            time_ms: operation.time_ms,
            kept_s: kept.map_or(self.kept_s, |end| end.wrapping_sub(time_s)),
        }
    }
}

/// An operation within a record; what it names is added to `names`, and its times count from those before.
pub(super) fn to_message<'a>(
    operation: &'a Operation,
    names: &mut Names<'a>,
    before: Before,
) -> pb::Operation {
    let result = &operation.result;
    let usual = operation.verdict == USUAL_VERDICT;
    let rule = number_in(&NUMBERED_RULES, &operation.rule);
    let head = number_in(
        &NUMBERED_HEADS,
        &(result.code, result.content_type.as_str()),
    );
    let (code, content_type) = if head == 0 {
        (result.code, result.content_type.clone())
    } else {
        (0, String::new())
    };
    let (mark, digest) = (operation.mark.as_bytes(), operation.digest.bytes());
    let scheme = operation.digest.scheme();
    let named_rule = rule == 0 && operation.rule != USUAL_RULE;
    let outcome = operation.outcome.as_deref();
    pb::Operation {
        id: operation.id.as_str().to_owned(),
        mark_and_digest: [&mark[..], digest].concat().into(),
        scheme: if scheme == USUAL_SCHEME {
            0
        } else {
            scheme.code().into()
        },
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
        code_and_type: head,
        code,
        content_type,
        headers: headers_to_message(result),
        time_ms: operation
            .time_ms
            .cast_signed()
            .wrapping_sub(before.time_ms.cast_signed()),
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
        fields: Bytes::copy_from_slice(operation.fields.as_bytes()),
        fields_salt: operation
            .fields
            .salt()
            .map(|salt| Bytes::copy_from_slice(salt.as_bytes()))
            .unwrap_or_default(),
        expiry: less(
            operation.expiry,
            before.kept_s.wrapping_add(operation.time_ms / 1000),
        ),
        deliveries: operation.deliveries.unsaid(),
        event: operation
            .event
            .as_ref()
            .map(|event| event.as_str().to_owned())
            .unwrap_or_default(),
        machine_version: version_number(operation.machine),
        keeps_retrying: operation.keeps_retrying,
        outcome_event: outcome
            .map(|outcome| outcome.event.as_str().to_owned())
            .unwrap_or_default(),
        outcome_version: match outcome.map(|outcome| outcome.version) {
            version if version == operation.machine => 0,
            version => version_number(version),
        },
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
    before: Before,
) -> Result<Operation, Invalid> {
    let time_ms = before.time_ms.wrapping_add(message.time_ms.cast_unsigned());
    let outcome = outcome_from(&message)?;
    let state = |name: &str, number| numbered(name, states, number);
    let head = numbered(
        "operation.code_and_type",
        &NUMBERED_HEADS,
        message.code_and_type,
    )?;
    let (code, content_type) = head.map_or((message.code, message.content_type), |(code, kind)| {
        (code, kind.to_owned())
    });
    let headers = message.headers.into_iter();
    let result = StoredResult {
        body: message.body,
        code,
        content_type,
        headers: headers.map(|header| (header.name, header.value)).collect(),
    };
    let (mark, digest) = message
        .mark_and_digest
        .split_first_chunk()
        .ok_or_else(|| missing("operation.mark"))?;
    let scheme = match message.scheme {
        0 => USUAL_SCHEME,
        code => scheme("operation.digest", code)?,
    };
    Ok(Operation {
        outcome,
        id: field("operation.id", OperationId::parse(&message.id))?,
        digest: digest_of("operation.digest", scheme, digest)?,
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
        time_ms,
        mark: Mark::from_bytes(*mark),
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
        fields: salted(
            fields("operation.fields", &message.fields)?,
            &message.fields_salt,
        )?,
        expiry: plus(message.expiry, before.kept_s.wrapping_add(time_ms / 1000)),
        deliveries: Deliveries::said(message.deliveries),
        event: if message.event.is_empty() {
            None
        } else {
            Some(field("operation.event", EventName::parse(&message.event))?)
        },
        machine: MachineVersion::new(message.machine_version),
        keeps_retrying: message.keeps_retrying,
        resolved: message
            .resolution
            .map(claim::resolution_from_message)
            .transpose()?,
    })
}

fn outcome_from(message: &pb::Operation) -> Result<Option<Box<Outcome>>, Invalid> {
    if message.outcome_event.is_empty() {
        return Ok(None);
    }
    let version = match message.outcome_version {
        0 => message.machine_version,
        version => version,
    };
    Ok(Some(Box::new(Outcome {
        event: field(
            "operation.outcome_event",
            EventName::parse(&message.outcome_event),
        )?,
        version: MachineVersion::new(version)
            .ok_or_else(|| missing("operation.outcome_version"))?,
    })))
}

/// 0: none.
pub(super) fn version_number(version: Option<MachineVersion>) -> u32 {
    version.map_or(0, MachineVersion::get)
}

pub(super) fn fields(name: &str, bytes: &[u8]) -> Result<FieldHashes, Invalid> {
    FieldHashes::from_bytes(bytes)
        .ok_or_else(|| Invalid::new(format!("{name} is no list of field hashes")))
}

fn salted(fields: FieldHashes, salt: &[u8]) -> Result<FieldHashes, Invalid> {
    if salt.is_empty() {
        return Ok(fields);
    }
    Ok(fields.salted_by(mark("operation.fields_salt", salt)?))
}

/// An operation in a key of its own.
pub(super) fn to_message_apart(operation: &Operation) -> pb::KeptApart {
    let mut names = Names::default();
    let message = to_message(operation, &mut names, Before::default());
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
    from_message(operation, &states, &rounds, Before::default())
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
    digest_of(name, scheme(name, (*code).into())?, digest)
}

fn scheme(name: &str, code: u32) -> Result<DigestScheme, Invalid> {
    u8::try_from(code)
        .ok()
        .and_then(DigestScheme::from_code)
        .ok_or_else(|| Invalid::new(format!("{name} has scheme {code}, which is unknown")))
}

fn digest_of(name: &str, scheme: DigestScheme, digest: &[u8]) -> Result<ContentDigest, Invalid> {
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
