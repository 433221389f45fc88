//! etcd's replies.

use etcd_client::proto::{
    PbKeyValue, PbRangeResponse, PbResponseOp, PbTxnOpResponse, PbTxnResponse,
};

use super::{Prepared, Reading, ResourceKeys};
use crate::domain::decision::IncidentId;
use crate::domain::record::LeaseId;
use crate::domain::token::Revision;
use crate::store::codec::{self, corrupt};
use crate::store::commit::{BatchOutcome, MemberOutcome, Seen, SeenReservation};
use crate::store::error::StoreError;
use crate::store::keys::Key;

/// The error for a reply of another shape than the request has. Whatever sent it, it is not etcd as we know it, and what
/// it did is unknown.
pub(in crate::store) fn malformed() -> StoreError {
    StoreError::Indeterminate {
        detail: "the reply has another shape than the request".to_owned(),
    }
}

/// What became of a batch whose timeline guard held.
pub(in crate::store) fn batch_outcome(
    reply: PbTxnResponse,
    members: &[Prepared],
) -> Result<BatchOutcome, StoreError> {
    // Headers of nested responses mean nothing; the top one has the revision of all writes.
    let revision = reply.header.map_or(0, |header| header.revision);
    let revision = Revision::from_etcd(revision).ok_or_else(malformed)?;
    if reply.responses.len() != members.len() {
        return Err(malformed());
    }
    let members = reply
        .responses
        .into_iter()
        .zip(members)
        .map(|(response, member)| {
            let Some(PbTxnOpResponse::ResponseTxn(reply)) = response.response else {
                return Err(malformed());
            };
            if reply.succeeded {
                let raised = raised(&member.0.incidents, reply.responses)?;
                return Ok(Ok(MemberOutcome::Committed { raised }));
            }
            let mut responses = reply.responses.into_iter();
            let keys = member.0.keys.iter();
            let each = keys.map(|keys| seen(keys, &mut responses));
            let mut each = each.collect::<Result<Vec<_>, _>>()?.into_iter();
            let first = each.next().ok_or_else(malformed)?;
            // Of several one that cannot be trusted is enough.
            Ok(first.and_then(|first| {
                let others = each.collect::<Result<_, _>>()?;
                Ok(MemberOutcome::Overtaken(Box::new(first), others))
            }))
        })
        .collect::<Result<_, StoreError>>()?;
    Ok(BatchOutcome { revision, members })
}

/// Those of a member's incidents that were not there before. Of all that it writes only they are transactions.
fn raised(
    incidents: &[IncidentId],
    responses: Vec<PbResponseOp>,
) -> Result<Vec<IncidentId>, StoreError> {
    let nested: Vec<bool> = responses
        .into_iter()
        .filter_map(|response| match response.response {
            Some(PbTxnOpResponse::ResponseTxn(reply)) => Some(reply.succeeded),
            Some(
                PbTxnOpResponse::ResponseRange(_)
                | PbTxnOpResponse::ResponsePut(_)
                | PbTxnOpResponse::ResponseDeleteRange(_),
            )
            | None => None,
        })
        .collect();
    if nested.len() != incidents.len() {
        return Err(malformed());
    }
    let new = incidents.iter().zip(nested).filter(|(_, new)| *new);
    Ok(new.map(|(id, _)| id.clone()).collect())
}

/// What a read found, without the timeline.
pub(in crate::store) fn read_outcome(
    reading: &Reading,
    responses: &mut impl Iterator<Item = PbResponseOp>,
) -> Result<Vec<Result<Seen, StoreError>>, StoreError> {
    reading
        .resources
        .iter()
        .map(|keys| seen(keys, responses))
        .collect()
}

/// The next response, which must be that of a get of one key.
pub(in crate::store) fn one_value(
    responses: &mut impl Iterator<Item = PbResponseOp>,
) -> Result<Option<PbKeyValue>, StoreError> {
    match responses.next().and_then(|response| response.response) {
        Some(PbTxnOpResponse::ResponseRange(PbRangeResponse { kvs, .. })) if kvs.len() <= 1 => {
            Ok(kvs.into_iter().next())
        }
        Some(
            PbTxnOpResponse::ResponseRange(_)
            | PbTxnOpResponse::ResponsePut(_)
            | PbTxnOpResponse::ResponseDeleteRange(_)
            | PbTxnOpResponse::ResponseTxn(_),
        )
        | None => Err(malformed()),
    }
}

/// Which of so many keys there are.
pub(in crate::store) fn which_are_there(
    reply: PbTxnResponse,
    asked: usize,
) -> Result<Vec<bool>, StoreError> {
    let mut responses = reply.responses.into_iter();
    (0..asked)
        .map(|_| Ok(one_value(&mut responses)?.is_some()))
        .collect()
}

/// Takes as many responses as there are keys, also if one of them turns out corrupt. The outer error: a malformed reply.
fn seen(
    keys: &ResourceKeys,
    responses: &mut impl Iterator<Item = PbResponseOp>,
) -> Result<Result<Seen, StoreError>, StoreError> {
    let record = one_value(responses)?;
    let reservation = one_value(responses)?;
    let machine = keys.machine.as_ref().map(|_| one_value(responses));
    let machine = machine.transpose()?;
    let operations = keys
        .operations
        .iter()
        .map(|_| one_value(responses))
        .collect::<Result<Vec<_>, _>>()?;
    let queue = match &keys.queue {
        None => None,
        Some(queue) => {
            let oldest = one_value(responses)?;
            let together = (queue.get_count() > 1).then(|| one_value(responses));
            Some(queue.first(oldest, together.transpose()?.flatten()))
        }
    };
    let seen = trusted(keys, record, reservation, operations);
    // Only its revision was asked for.
    let in_force = machine.map(|found| found.and_then(|kv| Revision::from_etcd(kv.mod_revision)));
    Ok(seen.map(|seen| Seen {
        machine: in_force,
        queue,
        ..seen
    }))
}

fn trusted(
    keys: &ResourceKeys,
    record: Option<PbKeyValue>,
    reservation: Option<PbKeyValue>,
    operations: Vec<Option<PbKeyValue>>,
) -> Result<Seen, StoreError> {
    let record = record
        .map(|kv| -> Result<_, StoreError> {
            let revision = revision_of(&keys.record, kv.mod_revision)?;
            Ok((codec::decode_record(&keys.record, &kv.value)?, revision))
        })
        .transpose()?;
    let reservation = reservation
        .map(|kv| {
            codec::decode_reservation(&keys.reservation, &kv.value)?;
            if kv.lease == 0 {
                // Ours always hang on a lease; one without would hold the resource for ever.
                return Err(corrupt(&keys.reservation, "it hangs on no lease"));
            }
            Ok(SeenReservation {
                granted: revision_of(&keys.reservation, kv.create_revision)?,
                lease: LeaseId(kv.lease),
            })
        })
        .transpose()?;
    let operations = keys
        .operations
        .iter()
        .zip(operations)
        .filter_map(|((id, key), kv)| Some(codec::decode_operation(key, id, &kv?.value)))
        .collect::<Result<_, _>>()?;
    Ok(Seen {
        record,
        reservation,
        operations,
        machine: None,
        queue: None,
    })
}

fn revision_of(key: &Key, revision: i64) -> Result<Revision, StoreError> {
    Revision::from_etcd(revision).ok_or_else(|| corrupt(key, "etcd names no revision of it"))
}
