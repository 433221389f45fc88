//! A Reserve that brought no lease, since most like it are granted nothing, and now is to be granted.

use super::{Next, Round};
use crate::domain::judge::Ask;
use crate::engine::fault::Fault;

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

    /// Nothing was written: the lease of the Reserve that was to be granted ended while it waited. It gets another.
    pub(super) async fn replace_lease(&mut self) -> Result<(), Fault> {
        let gone = self.granting.take();
        for ticket in &mut self.tickets {
            if let Ask::Reserve(reserve, _, Some(lease)) = &mut ticket.ask
                && Some(*lease) == gone
            {
                self.shared.leases.retire(*lease);
                *lease = self.shared.leases.take(reserve.ttl).await?;
            }
        }
        Ok(())
    }
}
