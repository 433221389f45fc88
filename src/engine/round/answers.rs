//! What is told once it is definite.

use super::Round;
use crate::domain::decision::IncidentId;
use crate::domain::judge::{Draft, Standing};
use crate::domain::token::Revision;

impl Round<'_> {
    /// `raised`: the incidents that the commit found first.
    pub(super) fn answer(
        &mut self,
        drafts: Vec<Draft>,
        at: Option<Revision>,
        mut raised: Vec<IncidentId>,
    ) {
        let held = self.standing.as_ref().and_then(Standing::held);
        let tickets = self.tickets.drain(..drafts.len());
        for (ticket, mut draft) in tickets.zip(drafts) {
            if let Some(round) = held
                && draft.shows_live()
                && let Some(left) = self.shared.leases.left(round)
            {
                draft.lasts(left);
            }
            self.shared.tell(ticket, draft.finish(at), &mut raised);
        }
    }
}
