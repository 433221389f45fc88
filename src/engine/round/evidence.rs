//! An incident keeps only so much evidence, so what it keeps is looked up before a result is added to it.

use futures_util::future::try_join_all;

use super::{Next, Round};
use crate::domain::decision::IncidentId;

impl Round<'_> {
    /// Looks up what incidents keep, by the names of the pieces, and folds again. One fold asks for no more incidents than it
    /// takes requests.
    pub(super) async fn read_evidence(&mut self, unread: Vec<IncidentId>) -> Next {
        let store = &self.shared.store;
        let reads = unread.into_iter().map(|id| async move {
            let kept = store.kept_evidence(&id).await?;
            Ok((id, kept))
        });
        match try_join_all(reads).await {
            Ok(found) => {
                self.evidence.extend(found);
                Next::Again
            }
            Err(error) => self.unanswered(error).await,
        }
    }
}
