//! Scene 6: what counts is the attempt that a callback speaks of, not the version of the order.

use super::super::super::trouble::Trouble;
use super::super::shop::{Callback, Order};
use super::super::stage::{Played, Stage, said};

const FIRST: Callback = Callback {
    key: "evt-1006-p1",
    attempt: "p1",
    body: r#"{"attempt": "p1", "amount": "20.00", "currency": "EUR"}"#,
};

const SECOND: Callback = Callback {
    key: "evt-1006-p2",
    attempt: "p2",
    body: r#"{"attempt": "p2", "amount": "20.00", "currency": "EUR"}"#,
};

/// Plays it.
pub(super) async fn play(stage: &Stage) -> Result<Played, Trouble> {
    let mut edited = Order::placed(stage, "scene-6-note", "p1").await?;
    edited.edit_note().await?;
    let (receipt_of_edited, counted) = edited.deliver_first(FIRST).await?;
    let after_edit = edited.inspect().await?;

    let mut repaid = Order::placed(stage, "scene-6-attempt", "p1").await?;
    repaid.pay_again("p2").await?;
    let old = repaid.deliver(FIRST).await?;
    let between = repaid.inspect().await?;
    let (receipt_of_second, _) = repaid.deliver_first(SECOND).await?;
    let at_end = repaid.inspect().await?;
    Ok(Played::new([
        format!(
            "Only a note was edited, then the callback of attempt p1 came: {}",
            said(&counted)
        ),
        format!(
            "Attempt p2 was started, then the callback of p1 came: {}",
            said(&old)
        ),
        format!(
            "Then that of p2 came; money was booked {} times, and the order is {}.",
            repaid.ledger.booked.len(),
            at_end.state
        ),
    ])
    .came_out(format!(
        "edited: {}; old attempt: {}; new: {}",
        after_edit.state, between.state, at_end.state
    ))
    .must(
        after_edit.state == "paid" && edited.ledger.booked_only(&receipt_of_edited),
        format!(
            "after the edit the callback did not count: the order is {}",
            after_edit.state
        ),
    )
    .must(
        between.state == "pending_payment",
        format!(
            "the old attempt's callback made the order {}",
            between.state
        ),
    )
    .must(
        at_end.state == "paid",
        format!("the order is {}, not paid", at_end.state),
    )
    .must(
        repaid.ledger.booked_only(&receipt_of_second),
        "other money was booked than that of the new attempt",
    ))
}
