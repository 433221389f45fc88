//! Who waits for a resource, to the wire.

use super::span;
use crate::domain::waiter::{Waiter, WaitingCall, WhoWaits};
use crate::proto::v1 as pb;

/// Who is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Whoever may call. Who knows the request of another could ask for its reservation, so that is left out.
    Callers,
    /// An operator.
    Operators,
}

/// Writes who waits.
pub(crate) fn to_wire(waiting: WhoWaits, told: Told) -> pb::Queue {
    pb::Queue {
        calls: i32::try_from(waiting.calls).unwrap_or(i32::MAX),
        first: waiting
            .first
            .into_iter()
            .map(|one| waiter(one, told))
            .collect(),
    }
}

fn waiter(waiter: Waiter, told: Told) -> pb::Waiter {
    let call = match waiter.call {
        WaitingCall::Reserve => pb::WaitingCall::Reserve,
        WaitingCall::Transition => pb::WaitingCall::Transition,
    };
    let request = match told {
        Told::Callers => None,
        Told::Operators => waiter.request,
    };
    pb::Waiter {
        call: call.into(),
        holder: waiter
            .holder
            .map_or_else(String::new, |name| name.as_str().to_owned()),
        operation_id: waiter
            .operation
            .map_or_else(String::new, |id| id.as_str().to_owned()),
        request_id: request.map_or_else(String::new, |id| id.to_string()),
        also: i32::try_from(waiter.also).unwrap_or(i32::MAX),
        since: Some(span::timestamp(waiter.time_ms)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{Holder, RequestId};

    #[test]
    fn the_request_of_whoever_waits_is_told_to_operators_alone() {
        let waiter = Waiter {
            holder: Some(Holder::parse("worker").unwrap()),
            call: WaitingCall::Reserve,
            operation: None,
            request: Some(RequestId::from_bytes([9; 16])),
            also: 1,
            time_ms: 1_000,
        };
        let waiting = WhoWaits {
            calls: 7,
            first: vec![waiter],
        };
        for (told, request) in [
            (Told::Callers, ""),
            (Told::Operators, "09090909-0909-0909-0909-090909090909"),
        ] {
            let queue = to_wire(waiting.clone(), told);
            assert_eq!((queue.calls, queue.first.len()), (7, 1));
            let first = &queue.first[0];
            assert_eq!(first.call(), pb::WaitingCall::Reserve);
            assert_eq!((&*first.holder, &*first.operation_id), ("worker", ""));
            assert_eq!((&*first.request_id, first.also), (request, 1));
            assert!(first.since.is_some());
        }
    }
}
