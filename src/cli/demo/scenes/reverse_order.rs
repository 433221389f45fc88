//! Scene 3: acknowledged, and no step back.

use super::super::super::trouble::Trouble;
use super::super::shop::{Callback, Order};
use super::super::stage::{Played, Stage, said};

const POLLED: Callback = Callback {
    key: "poll-1003",
    attempt: "p1",
    body: r#"{"status": "succeeded", "amount": "80.00", "currency": "EUR"}"#,
};

const LATE: Callback = Callback {
    key: "evt-1003-paid",
    attempt: "p1",
    body: r#"{"amount": "80.00", "currency": "EUR"}"#,
};

/// Plays it.
pub(super) async fn play(stage: &Stage) -> Result<Played, Trouble> {
    let mut order = Order::placed(stage, "scene-3", "p1").await?;
    let (receipt, _) = order.deliver_first(POLLED).await?;
    order.ship().await?;
    let decision = order.deliver(LATE).await?;
    let now = order.inspect().await?;
    let ledger = &order.ledger;
    Ok(Played::new([
        "The shop learned of the payment by polling and shipped; the provider's own \"paid\" came 30 minutes later.".to_owned(),
        said(&decision),
        format!("{} The order is {}.", ledger.told(), now.state),
    ])
    .came_out(format!(
        "{}, {} booked, {} sent",
        now.state,
        ledger.booked.len(),
        ledger.shipments
    ))
    .must(now.state == "shipped", format!("the order is {}, not shipped", now.state))
    .must(ledger.booked_only(&receipt), format!("money was booked {} times", ledger.booked.len()))
    .must(ledger.shipments == 1, format!("{} parcels were sent", ledger.shipments))
    .must(
        ledger.statuses() == [200, 200],
        format!("the senders were answered {:?}, not 200", ledger.statuses()),
    ))
}
