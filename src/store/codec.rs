//! How values look in etcd: a header that says what they are, a checksum that says they are whole and where they belong,
//! and a protobuf message.
//!
//! ```text
//! 0x80 + 16 × format version + kind | CRC-32, 4 bytes, big endian | message
//! ```
//!
//! No text begins with such a byte, so what somebody else put at a key is told apart at once. The checksum covers the key without its prefix, a zero byte, the kind and the message. A value that was changed by
//! hand, cut short, or copied to another key does not pass it. What does not pass is reported and never trusted.

mod claim;
mod incident;
mod machine;
mod operation;
mod record;
mod refer;
#[cfg(test)]
mod strategies;
#[cfg(test)]
mod tests;
mod waiter;

mod timeline;

use prost::Message;

pub(super) use self::waiter::{decode_waiter, encode_wait_session, encode_waiter};
pub(super) use timeline::{
    decode_start, decode_timeline, encode_probe, encode_start, encode_timeline,
};

use super::StoreError;
use super::clock::StoredClock;
use super::keys::Key;
use crate::domain::decision::IncidentId;
use crate::domain::ids::{Kind, Mark, Nonce, OperationId};
use crate::domain::incident::Incident;
use crate::domain::invalid::Invalid;
use crate::domain::machine::Filed;
use crate::domain::record::{Operation, Record};
use crate::domain::retention::StoreTime;
use crate::proto::store_v1 as pb;

/// How every value begins, less its format and kind. No text in UTF-8 does.
const MAGIC: u8 = 0x80;
/// Formats from 0 that the first byte has room for, each with as many kinds as [`KINDS`]. The last is left for what needs more.
const FORMATS: u8 = 4;
/// Kinds that the first byte has room for.
const KINDS: u8 = 16;
/// The format that this code writes. It reads this one and older ones, of which there are none.
const FORMAT_VERSION: u8 = 1;
/// Format and kind, then the checksum, in bytes.
const HEADER_BYTES: usize = 5;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordKind {
    Timeline,
    Record,
    Reservation,
    Operation,
    Incident,
    Clock,
    Sweep,
    Machine,
    Waiter,
    WaitSession,
    Probe,
    TimelineStart,
}

impl RecordKind {
    /// As stored; it never changes.
    fn code(self) -> u8 {
        match self {
            Self::Timeline => 1,
            Self::Record => 2,
            Self::Reservation => 3,
            Self::Operation => 4,
            Self::Incident => 5,
            Self::Clock => 7,
            Self::Sweep => 8,
            Self::Machine => 9,
            Self::Waiter => 12,
            Self::WaitSession => 13,
            Self::Probe => 10,
            Self::TimelineStart => 11,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Timeline => "a timeline",
            Self::Record => "a record",
            Self::Reservation => "a reservation",
            Self::Operation => "an operation",
            Self::Incident => "an incident",
            Self::Clock => "a clock",
            Self::Sweep => "a sweep",
            Self::Machine => "a machine",
            Self::Waiter => "an entry of a queue",
            Self::WaitSession => "a session of those who wait",
            Self::Probe => "a probe",
            Self::TimelineStart => "the start of a timeline",
        }
    }
}

pub(super) fn encode_record(key: &Key, record: &Record) -> Vec<u8> {
    seal(key, RecordKind::Record, &record::to_message(record))
}

pub(super) fn decode_record(key: &Key, value: &[u8]) -> Result<Record, StoreError> {
    open(key, RecordKind::Record, value, record::from_message)
}

pub(super) fn encode_reservation(key: &Key, round: Nonce) -> Vec<u8> {
    let message = pb::Reservation {
        round: nonce_bytes(round),
    };
    seal(key, RecordKind::Reservation, &message)
}

pub(super) fn decode_reservation(key: &Key, value: &[u8]) -> Result<Nonce, StoreError> {
    open(
        key,
        RecordKind::Reservation,
        value,
        |message: pb::Reservation| nonce("round", &message.round),
    )
}

pub(super) fn encode_operation(key: &Key, operation: &Operation) -> Vec<u8> {
    seal(
        key,
        RecordKind::Operation,
        &operation::to_message_apart(operation),
    )
}

/// The operation must be the one that the key names.
pub(super) fn decode_operation(
    key: &Key,
    id: &OperationId,
    value: &[u8],
) -> Result<Operation, StoreError> {
    let operation = open(
        key,
        RecordKind::Operation,
        value,
        operation::from_message_apart,
    )?;
    if operation.id != *id {
        return Err(corrupt(key, "it is another operation than its key says"));
    }
    Ok(operation)
}

pub(super) fn encode_incident(key: &Key, incident: &Incident) -> Vec<u8> {
    seal(key, RecordKind::Incident, &incident::to_message(incident))
}

/// The incident must be the one that the key names.
pub(super) fn decode_incident(
    key: &Key,
    id: &IncidentId,
    value: &[u8],
) -> Result<Incident, StoreError> {
    let incident = open(key, RecordKind::Incident, value, incident::from_message)?;
    if incident.id != *id {
        return Err(corrupt(key, "it is another incident than its key says"));
    }
    Ok(incident)
}

pub(super) fn encode_clock(key: &Key, clock: &StoredClock) -> Vec<u8> {
    let message = pb::Clock {
        now_ms: clock.now_ms,
        swept_ms: clock.swept_ms,
    };
    seal(key, RecordKind::Clock, &message)
}

pub(super) fn decode_clock(key: &Key, value: &[u8]) -> Result<StoredClock, StoreError> {
    open(key, RecordKind::Clock, value, |message: pb::Clock| {
        Ok(StoredClock {
            now_ms: message.now_ms,
            swept_ms: message.swept_ms,
        })
    })
}

pub(super) fn encode_sweep(key: &Key, sweeper: Nonce) -> Vec<u8> {
    let message = pb::Sweep {
        sweeper: nonce_bytes(sweeper),
    };
    seal(key, RecordKind::Sweep, &message)
}

pub(super) fn encode_machine(key: &Key, filed: &Filed) -> Vec<u8> {
    seal(key, RecordKind::Machine, &machine::to_message(filed))
}

/// The machine must be that of the kind that the key names.
pub(super) fn decode_machine(key: &Key, kind: &Kind, value: &[u8]) -> Result<Filed, StoreError> {
    let filed = open(key, RecordKind::Machine, value, machine::from_message)?;
    if filed.kind != *kind {
        return Err(corrupt(key, "it is that of another kind than its key says"));
    }
    Ok(filed)
}

/// The error for a value at `key` that cannot be trusted.
pub(super) fn corrupt(key: &Key, reason: impl Into<String>) -> StoreError {
    StoreError::Corrupt {
        key: key.printable(),
        reason: reason.into(),
    }
}

fn checksum(key: &Key, kind: u8, body: &[u8]) -> [u8; 4] {
    let mut hash = crc32fast::Hasher::new();
    hash.update(key.relative().as_bytes());
    hash.update(&[0, kind]);
    hash.update(body);
    hash.finalize().to_be_bytes()
}

fn first_byte(version: u8, kind: RecordKind) -> u8 {
    MAGIC + KINDS * version + kind.code()
}

fn seal(key: &Key, kind: RecordKind, message: &impl Message) -> Vec<u8> {
    let mut value = Vec::with_capacity(HEADER_BYTES + message.encoded_len());
    value.extend_from_slice(&[first_byte(FORMAT_VERSION, kind), 0, 0, 0, 0]);
    // A vector grows, so there is always room.
    message.encode(&mut value).expect("a vector has room");
    let (header, body) = value.split_at_mut(HEADER_BYTES);
    if let [_, sum @ ..] = header {
        sum.copy_from_slice(&checksum(key, kind.code(), body));
    }
    value
}

fn open<M: Message + Default, T>(
    key: &Key,
    kind: RecordKind,
    value: &[u8],
    read: impl FnOnce(M) -> Result<T, Invalid>,
) -> Result<T, StoreError> {
    let message = body_of(key, kind, value)
        .and_then(|body| {
            M::decode(body).map_err(|error| format!("its fields cannot be read: {error}"))
        })
        .map_err(|reason| corrupt(key, reason))?;
    read(message).map_err(|invalid| corrupt(key, format!("its field {invalid}")))
}

fn body_of<'v>(key: &Key, kind: RecordKind, value: &'v [u8]) -> Result<&'v [u8], String> {
    let Some((header, body)) = value.split_first_chunk::<HEADER_BYTES>() else {
        return Err(format!(
            "it is {} bytes long, too short to be one of ours",
            value.len()
        ));
    };
    let [first, sum @ ..] = *header;
    let said = first.checked_sub(MAGIC);
    let Some(said) = said.filter(|said| *said < FORMATS * KINDS) else {
        return Err("it does not begin like a value of Fencepost: it is foreign".to_owned());
    };
    let (version, found) = (said / KINDS, said % KINDS);
    if version > FORMAT_VERSION {
        return Err(format!(
            "it has format {version}, and this version of Fencepost knows only {FORMAT_VERSION}: upgrade this sidecar"
        ));
    }
    if version != FORMAT_VERSION {
        return Err(format!("it has format {version}, which never existed"));
    }
    if found != kind.code() {
        return Err(format!(
            "it is not {}: its kind is {found} instead of {}",
            kind.name(),
            kind.code()
        ));
    }
    if sum != checksum(key, found, body) {
        return Err(
            "its checksum is wrong: it is damaged, or was copied from another key".to_owned(),
        );
    }
    Ok(body)
}

fn nonce_bytes(nonce: Nonce) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(nonce.as_bytes())
}

/// Prefixes what is wrong with a field by its name.
fn field<T>(name: &str, parsed: Result<T, Invalid>) -> Result<T, Invalid> {
    parsed.map_err(|invalid| Invalid::new(format!("{name} {invalid}")))
}

fn missing(name: &str) -> Invalid {
    Invalid::new(format!("{name} is missing"))
}

fn exactly<const N: usize>(name: &str, bytes: &[u8]) -> Result<[u8; N], Invalid> {
    bytes.try_into().map_err(|_| {
        Invalid::new(format!(
            "{name} is {} bytes long instead of {N}",
            bytes.len()
        ))
    })
}

fn nonce(name: &str, bytes: &[u8]) -> Result<Nonce, Invalid> {
    exactly(name, bytes).map(Nonce::from_bytes)
}

/// Absent: none.
fn seconds(moment: Option<StoreTime>) -> u64 {
    moment.map_or(0, StoreTime::seconds)
}

/// 0: none.
fn moment(seconds: u64) -> Option<StoreTime> {
    (seconds > 0).then(|| StoreTime::from_seconds(seconds))
}

/// What stands for no moment at all, where a moment is written as a difference.
const NO_MOMENT: i64 = i64::MIN;

/// A moment as a difference to other seconds.
fn less(moment: Option<StoreTime>, other_s: u64) -> i64 {
    moment.map_or(NO_MOMENT, |moment| {
        let seconds = moment.seconds().wrapping_sub(other_s);
        seconds.cast_signed()
    })
}

/// What [`less`] wrote.
fn plus(difference: i64, other_s: u64) -> Option<StoreTime> {
    (difference != NO_MOMENT)
        .then(|| StoreTime::from_seconds(other_s.wrapping_add(difference.cast_unsigned())))
}

fn mark(name: &str, bytes: &[u8]) -> Result<Mark, Invalid> {
    exactly(name, bytes).map(Mark::from_bytes)
}

fn at_most(name: &str, count: usize, limit: usize) -> Result<(), Invalid> {
    if count > limit {
        return Err(Invalid::new(format!(
            "{name} has {count} entries; the limit is {limit}"
        )));
    }
    Ok(())
}
