//! Entries in the queue of a resource, and the key of a sidecar's session that enters them.

use super::{Key, RecordKind, exactly, field, missing, nonce_bytes, open, seal};
use crate::domain::ids::{Holder, Nonce, OperationId, RequestId};
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
        operation: waiter
            .operation
            .as_ref()
            .map_or(String::new(), |id| id.as_str().to_owned()),
        request: waiter.request.map_or_else(Default::default, |id| {
            bytes::Bytes::copy_from_slice(id.as_bytes())
        }),
        also: waiter.also,
    };
    seal(key, RecordKind::Waiter, &message)
}

pub(in crate::store) fn decode_waiter(key: &Key, value: &[u8]) -> Result<Waiter, StoreError> {
    open(key, RecordKind::Waiter, value, |message: pb::Waiter| {
        let named = (!message.holder.is_empty()).then_some(message.holder);
        let holder = named.map(|name| field("holder", Holder::parse(&name)));
        let operation = (!message.operation.is_empty()).then_some(message.operation);
        let operation = operation.map(|id| field("operation", OperationId::parse(&id)));
        let request = (!message.request.is_empty()).then_some(message.request);
        let request = request.map(|id| exactly("request", &id).map(RequestId::from_bytes));
        Ok(Waiter {
            holder: holder.transpose()?,
            call: match message.call {
                1 => WaitingCall::Reserve,
                2 => WaitingCall::Transition,
                0 => return Err(missing("call")),
                other => return Err(Invalid::new(format!("call is {other}, which is not known"))),
            },
            operation: operation.transpose()?,
            request: request.transpose()?,
            also: message.also,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{Kind, ResourceId};
    use crate::domain::waiter::WaiterName;
    use crate::store::keys::{Keys, Prefix};
    use crate::store::txn::ENTRY_BACK_BYTES;

    fn key() -> Key {
        let resource = ResourceId::new(Kind::parse("order").unwrap(), "1").unwrap();
        let nonce = Nonce::from_bytes([7; 16]);
        Keys::new(Prefix::default()).waiter(&resource, &WaiterName { arrival: 1, nonce })
    }

    #[test]
    fn an_entry_tells_all_that_was_said_of_whoever_waits() {
        let long = "x".repeat(256);
        let said = Waiter {
            holder: Some(Holder::parse(&long).unwrap()),
            call: WaitingCall::Reserve,
            operation: Some(OperationId::parse(&long).unwrap()),
            request: Some(RequestId::from_bytes([9; 16])),
            also: 15,
            time_ms: u64::MAX,
        };
        let nothing = Waiter {
            holder: None,
            call: WaitingCall::Transition,
            operation: None,
            request: None,
            also: 0,
            time_ms: 0,
        };
        for waiter in [said, nothing] {
            let stored = encode_waiter(&key(), &waiter);
            assert!(stored.len() <= ENTRY_BACK_BYTES, "{}", stored.len());
            assert_eq!(decode_waiter(&key(), &stored).unwrap(), waiter);
        }
    }

    #[test]
    fn an_entry_with_half_a_request_is_damaged() {
        let message = pb::Waiter {
            call: 1,
            request: bytes::Bytes::from_static(b"half"),
            ..pb::Waiter::default()
        };
        let stored = seal(&key(), RecordKind::Waiter, &message);
        assert!(decode_waiter(&key(), &stored).is_err());
    }
}
