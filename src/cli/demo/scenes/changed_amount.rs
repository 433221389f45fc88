//! Scene 7: refused and reported, and the first stays what it was.

use super::super::super::trouble::Trouble;
use super::super::ledger::Answer;
use super::super::shop::{Callback, Order};
use super::super::stage::{Played, Stage, said};

const PAID: Callback = Callback {
    key: "evt-1007-paid",
    attempt: "p1",
    body: r#"{"amount": 100, "currency": "EUR"}"#,
};

/// The same, as another server of the provider writes it.
const REWRITTEN: Callback = Callback {
    key: "evt-1007-paid",
    attempt: "p1",
    body: r#"{"currency":"EUR","amount":100.0}"#,
};

const CHANGED: Callback = Callback {
    key: "evt-1007-paid",
    attempt: "p1",
    body: r#"{"amount": 999, "currency": "EUR"}"#,
};

/// Plays it.
pub(super) async fn play(stage: &Stage) -> Result<Played, Trouble> {
    let mut order = Order::placed(stage, "scene-7", "p1").await?;
    let (receipt, _) = order.deliver_first(PAID).await?;
    let before = order.inspect().await?;
    let decision = order.deliver(CHANGED).await?;
    order.deliver(REWRITTEN).await?;
    let now = order.inspect().await?;
    let ledger = &order.ledger;
    let no = stage.law().status_of_a_no();
    let first = Answer {
        status: 200,
        body: receipt.clone(),
    };
    Ok(Played::new([
        "A callback over 100 EUR was booked; the same event came again over 999 EUR, then once more as it was.".to_owned(),
        said(&decision),
        ledger.told(),
    ])
    .came_out(format!(
        "{}, {} booked, {} alert",
        now.state,
        ledger.booked.len(),
        ledger.alerts.len()
    ))
    .must(ledger.booked_only(&receipt), format!("money was booked {} times", ledger.booked.len()))
    .must(
        ledger.statuses() == [200, no, 200],
        format!("the sender was answered {:?}, not 200, {no}, 200", ledger.statuses()),
    )
    .must(
        decision.differing_fields == ["/amount"],
        format!("told to differ was {:?}, not /amount", decision.differing_fields),
    )
    .must(ledger.answered_with(&receipt) == 2, "the changed amount was answered with the result of the first")
    .must(ledger.answers.last() == Some(&first), "the first result was not replayed to the original")
    .must(ledger.alerts.len() == 1, format!("{} persons were called, not one", ledger.alerts.len()))
    .must(
        now.state == "paid" && now.state == before.state,
        format!("the order is {}, not paid", now.state),
    ))
}
