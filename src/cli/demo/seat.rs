//! One seat of a hall, as the box office would drive it.

use bytes::Bytes;
use uuid::Uuid;

use super::super::trouble::Trouble;
use super::law::{Step, Value, Way};
use super::ledger::Ledger;
use super::stage::Stage;
use crate::proto::v1::{Decision, Resource, Result as Stored, Snapshot, intent::Content};

/// The identity value that tells one hold from the next.
const HOLD: &str = "hold_id";
const FREE: &str = "free";
const HELD: &str = "held";
const SOLD: &str = "sold";

/// One seat.
#[derive(Debug)]
pub(super) struct Seat<'a> {
    stage: &'a Stage,
    resource: Resource,
    /// What happened to it in the world.
    pub(super) ledger: Ledger,
}

impl<'a> Seat<'a> {
    /// The sale begins.
    pub(super) async fn opened(stage: &'a Stage, name: &str) -> Result<Self, Trouble> {
        let seat = Self {
            stage,
            resource: stage.ruled("seat", name),
            ledger: Ledger::default(),
        };
        let open = step("open", "open", Way::Creates(FREE));
        stage.step(&seat.resource, open).await?;
        Ok(seat)
    }

    /// A customer holds it.
    pub(super) async fn hold(&self, hold: &str) -> Result<(), Trouble> {
        let hold = Step {
            sets: Some(named(hold)),
            ..step(&format!("hold-{hold}"), "hold", Way::Moves(FREE, HELD))
        };
        self.stage.step(&self.resource, hold).await
    }

    /// A hold is let go. `who` does so tells the customer's own wish from the end of the hold's time.
    pub(super) async fn release(&self, hold: &str, who: &str) -> Result<Decision, Trouble> {
        let release = Step {
            matches: Some(named(hold)),
            ..step(
                &format!("release-{hold}-{who}"),
                "release",
                Way::Moves(HELD, FREE),
            )
        };
        let asked = self.stage.asked(&self.resource, release);
        self.stage.transition(asked).await
    }

    /// The callback of a payment for a hold. Tells the receipt that it would be booked under.
    pub(super) async fn pay(&mut self, hold: &str) -> Result<(Bytes, Decision), Trouble> {
        let receipt = Bytes::from(format!("ticket {}", Uuid::new_v4().simple()));
        let body = format!(r#"{{"hold": "{hold}", "amount": "30.00"}}"#);
        let buy = Step {
            matches: Some(named(hold)),
            content: Content::Json(body.into()),
            ..step(&format!("evt-{hold}-paid"), "buy", Way::Moves(HELD, SOLD))
        };
        let mut asked = self.stage.asked(&self.resource, buy);
        asked.result = Some(Stored {
            body: receipt.clone(),
            ..Stored::default()
        });
        let decision = self.stage.transition(asked).await?;
        self.ledger.callback(&decision);
        Ok((receipt, decision))
    }

    /// How the sidecar sees it.
    pub(super) async fn inspect(&self) -> Result<Snapshot, Trouble> {
        self.stage.inspect(&self.resource).await
    }
}

/// Whose a seat is, and in which state.
pub(super) fn is(seat: &Snapshot, state: &str, hold: &str) -> bool {
    seat.state == state && seat.identity.get(HOLD).map(String::as_str) == Some(hold)
}

fn step(key: &str, event: &'static str, way: Way) -> Step {
    Step {
        key: key.to_owned(),
        event,
        way,
        matches: None,
        sets: None,
        content: Content::Raw(Bytes::new()),
    }
}

fn named(hold: &str) -> Value {
    (HOLD, hold.to_owned())
}
