//! A lane stops between two rounds and lends what it believes, so that several resources can be judged and committed as one.
//!
//! A lane lends only when its own work is settled. It stands still until what it lent comes back, which is when the borrower
//! drops it: answered, failed, or given up. Whoever borrows from several lanes does so in the order of their resources, so that
//! of any who wait for each other one always gets on.

use tokio::sync::oneshot;

use super::fault::Fault;
use super::lane::{Belief, Stuck};

/// A lane, or why it cannot be lent.
pub(super) type LentOrNot = Result<Lent, Fault>;

/// Somebody who waits for a lane.
#[derive(Debug)]
pub(super) struct Loan(oneshot::Sender<LentOrNot>);

impl Loan {
    /// A wish, and where the lane will be.
    pub(super) fn ask() -> (Self, oneshot::Receiver<LentOrNot>) {
        let (ready, lent) = oneshot::channel();
        (Self(ready), lent)
    }

    /// Whether nobody waits any more.
    pub(super) fn given_up(&self) -> bool {
        self.0.is_closed()
    }

    /// Says why the lane cannot be lent.
    pub(super) fn refuse(self, fault: Fault) {
        drop(self.0.send(Err(fault)));
    }

    /// Lends the lane; answers what is believed once it is back. `None`: nothing is known.
    pub(super) async fn lend(self, belief: Option<Belief>, stuck: Stuck) -> Option<Belief> {
        let (back, returned) = oneshot::channel();
        let lent = Lent {
            belief,
            stuck,
            back: Some(back),
        };
        // If the borrower has left, this comes back at once.
        drop(self.0.send(Ok(lent)));
        returned.await.ok().flatten()
    }
}

/// A lane that stands still, and what it believes. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Lent {
    /// What goes back.
    pub(super) belief: Option<Belief>,
    /// Where the borrower says that it cannot go on.
    pub(super) stuck: Stuck,
    back: Option<oneshot::Sender<Option<Belief>>>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(back) = self.back.take() {
            drop(back.send(self.belief.take()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::Nonce;
    use crate::domain::judge::Standing;
    use crate::domain::token::Timeline;

    fn belief() -> Option<Belief> {
        Some(Belief {
            timeline: Timeline::first(Nonce::from_bytes([1; 16]), 1),
            standing: Standing::absent(),
        })
    }

    #[tokio::test]
    async fn a_lane_gets_back_what_it_lent_however_the_borrower_left() {
        let (loan, lent) = Loan::ask();
        drop(lent);
        assert!(loan.given_up());
        assert!(
            loan.lend(belief(), Stuck::default()).await.is_some(),
            "it had left before"
        );

        let (loan, lent) = Loan::ask();
        let lane = tokio::spawn(loan.lend(belief(), Stuck::default()));
        let lent = lent.await.unwrap().unwrap();
        assert!(!lane.is_finished(), "it stands still");
        drop(lent);
        assert!(lane.await.unwrap().is_some(), "it gave up");

        let (loan, lent) = Loan::ask();
        let lane = tokio::spawn(loan.lend(belief(), Stuck::default()));
        lent.await.unwrap().unwrap().belief.take();
        assert!(lane.await.unwrap().is_none(), "nothing is known any more");
    }

    #[tokio::test]
    async fn what_was_lent_to_one_who_left_before_taking_it_comes_back() {
        let (loan, lent) = Loan::ask();
        let lane = tokio::spawn(loan.lend(belief(), Stuck::default()));
        while !lane.is_finished() && lent.is_empty() {
            tokio::task::yield_now().await;
        }
        drop(lent);
        assert!(lane.await.unwrap().is_some());
    }
}
