//! Scene 2: every copy gets the first answer byte for byte, and the order moved once.

use bytes::Bytes;

use super::super::super::trouble::Trouble;
use super::super::shop::{Callback, Order};
use super::super::stage::{Played, Stage, said};

/// Copies that come at the same time.
const COPIES: usize = 10;

const PAID: Callback = Callback {
    key: "evt-1002-paid",
    attempt: "p1",
    body: r#"{"amount": "15.00", "currency": "EUR"}"#,
};

/// Plays it.
pub(super) async fn play(stage: &Stage) -> Result<Played, Trouble> {
    let mut order = Order::placed(stage, "scene-2", "p1").await?;
    let (receipt, _) = order.deliver_first(PAID).await?;
    let after_first = order.inspect().await?;
    let decision = order.deliver(PAID).await?;
    order.deliver_at_once(PAID, COPIES).await?;
    let after_all = order.inspect().await?;

    // And once more with no first before them: one of ten runs.
    let mut rush = Order::placed(stage, "scene-2-rush", "p1").await?;
    let receipts = rush.deliver_at_once(PAID, COPIES).await?;
    let rushed = rush.inspect().await?;

    // And where the booking lies outside, so that it has to be run before its result can be stored.
    let mut outside = Order::placed(stage, "scene-2-outside", "p1").await?;
    let ran = outside.deliver_claimed(PAID, COPIES).await?;
    let (told, first) = (&outside.ledger, Bytes::from_static(b"receipt 1"));
    let alike = told.answered_with(&first);

    let ledger = &order.ledger;
    let (all, with_first) = (ledger.answers.len(), ledger.answered_with(&receipt));
    let first_of_rush = rush
        .ledger
        .answers
        .first()
        .map(|answer| answer.body.clone())
        .unwrap_or_default();
    let with_rushed = rush.ledger.answered_with(&first_of_rush);
    Ok(Played::new([
        format!(
            "The first answer was lost on its way; the provider sent it again, then {COPIES} copies at once. Another order \
             got {COPIES} at once from the start; a third too, and its booking lies outside."
        ),
        said(&decision),
        format!(
            "{with_first} of {all} answers carried the first receipt, and {with_rushed} of {COPIES}; money was booked {} and {} \
             times.",
            ledger.booked.len(),
            rush.ledger.booked.len()
        ),
        format!(
            "Outside, the booking ran {ran} time; the other {} copies were told to come again, and then got its receipt.",
            COPIES - 1
        ),
    ])
    .came_out(format!(
        "{with_first} of {all} and {with_rushed} of {COPIES} answers equal, {} + {} booked",
        ledger.booked.len(),
        rush.ledger.booked.len()
    ))
    .must(with_first == all, "a copy was answered otherwise than the first delivery")
    .must(ledger.booked_only(&receipt), format!("money was booked {} times", ledger.booked.len()))
    .must(after_first.state == "paid", format!("the order is {}, not paid", after_first.state))
    .must(after_all == after_first, "a copy changed the order")
    .must(receipts.contains(&first_of_rush) && with_rushed == COPIES, "copies that came at once were answered differently")
    .must(
        rush.ledger.booked.len() == 1,
        format!("copies that came at once were booked {} times", rush.ledger.booked.len()),
    )
    .must(ran == 1, format!("the booking outside ran {ran} times"))
    .must(alike == COPIES + 1, format!("{alike} answers carried the receipt of the booking outside"))
    .must(rushed.state == "paid", format!("the other order is {}, not paid", rushed.state)))
}
