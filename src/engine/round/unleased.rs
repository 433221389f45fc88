//! A Reserve that brought no lease, since most like it are granted nothing, and now is to be granted; or whose lease ended while
//! it waited. If no lease can be had it alone fails: nobody else's request needs one.

use super::{Next, Round};
use crate::domain::judge::Ask;
use crate::engine::ticket::Ticket;

impl Round<'_> {
    /// The first request left is to be granted, and gets its lease only now. Without one it alone fails.
    pub(super) async fn take_lease(&mut self) -> Next {
        let Some(mut first) = self.tickets.pop_front() else {
            return Next::Again;
        };
        if let Ask::Reserve(reserve, _, lease @ None) = &mut first.ask {
            match self.shared.leases.take(reserve.ttl).await {
                Ok(taken) => *lease = Some(taken),
                Err(fault) => {
                    self.shared.answer(first, Err(fault));
                    return Next::Again;
                }
            }
        }
        self.tickets.push_front(first);
        Next::Again
    }

    /// Nothing was written: the lease of the Reserve that was to be granted ended while it waited. It gets another, or fails.
    pub(super) async fn replace_lease(&mut self) {
        let Some(gone) = self.granting.take() else {
            return;
        };
        self.shared.leases.retire(gone);
        let hangs_on_it = |ticket: &Ticket| matches!(ticket.ask, Ask::Reserve(_, _, Some(lease)) if lease == gone);
        let Some(at) = self.tickets.iter().position(hangs_on_it) else {
            return;
        };
        let Some(ticket) = self.tickets.get_mut(at) else {
            return;
        };
        let Ask::Reserve(reserve, _, lease) = &mut ticket.ask else {
            return;
        };
        match self.shared.leases.take(reserve.ttl).await {
            Ok(taken) => *lease = Some(taken),
            // What was sent before is not settled, so it has to go on.
            Err(_) if self.unsettled.is() => {}
            Err(fault) => {
                if let Some(ticket) = self.tickets.remove(at) {
                    self.shared.answer(ticket, Err(fault));
                }
            }
        }
    }
}
