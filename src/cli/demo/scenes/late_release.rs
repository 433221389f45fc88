//! Scene 4: what belongs to an earlier hold changes nothing for who holds the seat now.

use super::super::super::trouble::Trouble;
use super::super::seat::{Seat, is};
use super::super::stage::{Played, Stage, said, settled};

/// Plays it.
pub(super) async fn play(stage: &Stage) -> Result<Played, Trouble> {
    let mut seat = Seat::opened(stage, "scene-4").await?;
    seat.hold("a").await?;
    let let_go = seat.release("a", "by-customer").await?;
    seat.hold("b").await?;

    let late = seat.release("a", "by-timer").await?;
    let after_release = seat.inspect().await?;
    let (_, too_late) = seat.pay("a").await?;
    let after_payment = seat.inspect().await?;
    let alerts = seat.ledger.alerts.len();
    let (ticket, _) = seat.pay("b").await?;
    let at_end = seat.inspect().await?;
    let ledger = &seat.ledger;
    Ok(Played::new([
        format!(
            "A held a seat for ten minutes and let go; B holds it; A's ten minutes end: {}",
            said(&late)
        ),
        format!("A had paid after all, too late: {}", said(&too_late)),
        format!(
            "Then B paid. {} The seat is {}.",
            ledger.told(),
            at_end.state
        ),
    ])
    .came_out(format!(
        "B's, {}; {} ticket, {alerts} alert",
        at_end.state,
        ledger.booked.len()
    ))
    .must(settled(&let_go), "A could not let go")
    .must(
        settled(&late) && late.incident_id.is_empty(),
        "A's late release is still to be worked on",
    )
    .must(
        is(&after_release, "held", "b"),
        format!("A's late release left the seat {}", after_release.state),
    )
    .must(
        is(&after_payment, "held", "b"),
        format!("A's late payment left the seat {}", after_payment.state),
    )
    // The example calls a person, who gives A the money back; a request has no way to say so.
    .must(
        !stage.law().is_machine() || alerts == 1,
        format!("{alerts} persons were called for A's money, not one"),
    )
    .must(
        ledger.booked_only(&ticket),
        format!("{} tickets were sold", ledger.booked.len()),
    )
    .must(
        is(&at_end, "sold", "b"),
        format!("B has paid, and the seat is {}", at_end.state),
    ))
}
