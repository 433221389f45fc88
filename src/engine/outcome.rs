//! What is known of a resource once a commit went through, and once its answers are given.

use crate::domain::ids::OperationId;
use crate::domain::judge::{Draft, Standing};
use crate::domain::token::Revision;
use crate::store::{Commit, ReservationGuard, ReservationWrite};

/// What must hold of the reservation key.
pub(super) fn guard_of(standing: &Standing) -> ReservationGuard {
    match standing.reservation() {
        Some(granted) => ReservationGuard::GrantedAt(granted),
        None => ReservationGuard::Absent,
    }
}

/// What is known now, after what was known before. `None`: less than would be of use.
pub(super) fn known_after(before: Standing, done: Commit, revision: Revision) -> Option<Standing> {
    if done.gone.record {
        return Some(Standing::absent());
    }
    let Some(record) = done.record else {
        // Only incidents or operations were written beside the record.
        let same = done.seen == before.revision();
        return same.then(|| before.with_operations(done.operations));
    };
    let reservation = match (done.reservation_write, done.reservation) {
        (ReservationWrite::Grant(_), _) => Some(revision),
        (ReservationWrite::Delete, _) | (ReservationWrite::Keep, ReservationGuard::Absent) => None,
        (ReservationWrite::Keep, ReservationGuard::GrantedAt(granted)) => Some(granted),
    };
    let known = Standing::seen(Some((record, revision)), reservation);
    let known = known.expect("what was just judged and committed fits together");
    let known = known.with_operations(done.operations).remembering(before);
    Some(known.without(&done.gone.operations))
}

/// Counts what is answered about finished operations, but for those whose counts have just been written.
pub(super) fn count_repeats(
    standing: &mut Option<Standing>,
    drafts: &[Draft],
    written: &[OperationId],
) {
    if let Some(standing) = standing {
        let repeats = drafts.iter().filter_map(Draft::repeats);
        for id in repeats.filter(|id| !written.contains(*id)) {
            standing.delivered_again(id);
        }
    }
}
