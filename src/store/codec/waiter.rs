//! Entries in the queue of a resource, and the key of a sidecar's session that enters them.

use super::{Key, RecordKind, field, missing, nonce_bytes, open, seal};
use crate::domain::ids::{Holder, Nonce};
use crate::domain::invalid::Invalid;
use crate::domain::waiter::{Waiter, WaitingCall};
use crate::proto::store_v1 as pb;
use crate::store::StoreError;

pub(in crate::store) fn encode_waiter(key: &Key, waiter: &Waiter) -> Vec<u8> {
    let call = match waiter.call {
        WaitingCall::Reserve => 1,
        WaitingCall::Transition => 2,
    };
    let holder = waiter.holder.as_ref();
    let message = pb::Waiter {
        holder: holder.map_or(String::new(), |holder| holder.as_str().to_owned()),
        call,
        time_ms: waiter.time_ms,
    };
    seal(key, RecordKind::Waiter, &message)
}

pub(in crate::store) fn decode_waiter(key: &Key, value: &[u8]) -> Result<Waiter, StoreError> {
    open(key, RecordKind::Waiter, value, |message: pb::Waiter| {
        let named = (!message.holder.is_empty()).then_some(message.holder);
        let holder = named.map(|name| field("holder", Holder::parse(&name)));
        Ok(Waiter {
            holder: holder.transpose()?,
            call: match message.call {
                1 => WaitingCall::Reserve,
                2 => WaitingCall::Transition,
                0 => return Err(missing("call")),
                other => return Err(Invalid::new(format!("call is {other}, which is not known"))),
            },
            time_ms: message.time_ms,
        })
    })
}

pub(in crate::store) fn encode_wait_session(key: &Key, session: Nonce) -> Vec<u8> {
    let message = pb::WaitSession {
        session: nonce_bytes(session),
    };
    seal(key, RecordKind::WaitSession, &message)
}
