//! Scene 1: the order stays cancelled, the money is not booked as its payment, a person hears of it, the sender stops.

use super::super::super::trouble::Trouble;
use super::super::shop::{Callback, Order};
use super::super::stage::{Played, Stage, said};

const PAID: Callback = Callback {
    key: "evt-1001-paid",
    attempt: "p1",
    body: r#"{"amount": "49.90", "currency": "EUR"}"#,
};

/// Plays it.
pub(super) async fn play(stage: &Stage) -> Result<Played, Trouble> {
    let mut order = Order::placed(stage, "scene-1", "p1").await?;
    order.cancel().await?;
    let decision = order.deliver(PAID).await?;
    order.deliver(PAID).await?;
    let now = order.inspect().await?;
    let ledger = &order.ledger;
    let no = stage.law().status_of_a_no();
    Ok(Played::new([
        "The customer paid, lost patience and cancelled; the provider's \"paid\" came last, twice."
            .to_owned(),
        said(&decision),
        ledger.told(),
    ])
    .came_out(format!(
        "{}, {} booked, {} alert",
        now.state,
        ledger.booked.len(),
        ledger.alerts.len()
    ))
    .must(
        now.state == "cancelled",
        format!("the order is {}, not cancelled", now.state),
    )
    .must(
        ledger.booked.is_empty(),
        "money was booked as the payment of a cancelled order",
    )
    .must(
        ledger.alerts.len() == 1,
        format!("{} persons were called, not one", ledger.alerts.len()),
    )
    .must(
        ledger.statuses() == [no, no],
        format!(
            "the sender was answered {:?}, not {no} both times",
            ledger.statuses()
        ),
    ))
}
