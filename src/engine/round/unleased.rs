//! A Reserve that brought no lease, since most like it are granted nothing, and now is to be granted.

use super::{Next, Round};
use crate::domain::judge::Ask;

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
}
