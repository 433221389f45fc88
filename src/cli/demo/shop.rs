//! One order of a shop, as the shop's own code would drive it.

use bytes::Bytes;
use uuid::Uuid;

use super::super::trouble::Trouble;
use super::law::{Step, Way};
use super::ledger::Ledger;
use super::stage::{Stage, may_run};
use crate::proto::v1::{
    Decision, Resource, Result as Stored, Snapshot, TransitionRequest, intent::Content,
};

/// The identity value that tells one attempt to pay from the next.
const ATTEMPT: &str = "payment_attempt_id";
/// How long a handler may take to book a payment.
const CLAIM_SECONDS: i64 = 30;
const PENDING: &str = "pending_payment";

/// What a payment provider sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Callback {
    /// The provider's id of the event, equal in every resend.
    pub(super) key: &'static str,
    /// The attempt that it speaks of.
    pub(super) attempt: &'static str,
    /// Its body.
    pub(super) body: &'static str,
}

/// One order.
#[derive(Debug)]
pub(super) struct Order<'a> {
    stage: &'a Stage,
    resource: Resource,
    /// What happened to it in the world.
    pub(super) ledger: Ledger,
}

impl<'a> Order<'a> {
    /// The customer orders and starts to pay.
    pub(super) async fn placed(
        stage: &'a Stage,
        name: &str,
        attempt: &str,
    ) -> Result<Self, Trouble> {
        let order = Self {
            stage,
            resource: stage.ruled("order", name),
            ledger: Ledger::default(),
        };
        order.step("place", "place", Way::Creates(PENDING)).await?;
        order.start_payment("try-to-pay", attempt).await?;
        Ok(order)
    }

    /// The customer cancels.
    pub(super) async fn cancel(&self) -> Result<(), Trouble> {
        let way = Way::Moves(PENDING, "cancelled");
        self.step("cancel", "cancel", way).await
    }

    /// Somebody edits the delivery note.
    pub(super) async fn edit_note(&self) -> Result<(), Trouble> {
        self.step("edit-note", "note", Way::Stays(PENDING)).await
    }

    /// The customer starts to pay once more.
    pub(super) async fn pay_again(&self, attempt: &str) -> Result<(), Trouble> {
        self.start_payment("pay-again", attempt).await
    }

    /// The warehouse sends the parcel, if the order may move on.
    pub(super) async fn ship(&mut self) -> Result<(), Trouble> {
        let way = Way::Moves("paid", "shipped");
        self.step("ship", "ship", way).await?;
        self.ledger.shipments += 1;
        Ok(())
    }

    /// One delivery of a callback, and what the shop's handler does with the answer.
    pub(super) async fn deliver(&mut self, callback: Callback) -> Result<Decision, Trouble> {
        let (_, asked) = self.payment(callback);
        let decision = self.stage.transition(asked).await?;
        self.ledger.callback(&decision);
        Ok(decision)
    }

    /// As `deliver`; also tells the receipt that this delivery would be booked under if it were the first.
    pub(super) async fn deliver_first(
        &mut self,
        callback: Callback,
    ) -> Result<(Bytes, Decision), Trouble> {
        let (receipt, asked) = self.payment(callback);
        let decision = self.stage.transition(asked).await?;
        self.ledger.callback(&decision);
        Ok((receipt, decision))
    }

    /// Many deliveries at once, each with a receipt of its own.
    pub(super) async fn deliver_at_once(
        &mut self,
        callback: Callback,
        copies: usize,
    ) -> Result<Vec<Bytes>, Trouble> {
        let (receipts, asked): (Vec<_>, Vec<_>) =
            (0..copies).map(|_| self.payment(callback)).unzip();
        let calls = asked.into_iter().map(|asked| self.stage.transition(asked));
        for decision in futures_util::future::join_all(calls).await {
            self.ledger.callback(&decision?);
        }
        Ok(receipts)
    }

    /// Many deliveries at once to a handler whose effect lies outside: it runs the effect only if it is told to, then says
    /// what came of it. All come again afterwards. Tells how often the effect ran.
    pub(super) async fn deliver_claimed(
        &mut self,
        callback: Callback,
        copies: usize,
    ) -> Result<u32, Trouble> {
        let mut ran = 0;
        for _ in 0..2 {
            let claims = (0..copies).map(|_| {
                let intent = self.payment(callback).1.intent.unwrap_or_default();
                self.stage.claim(&self.resource, CLAIM_SECONDS, intent)
            });
            for answer in futures_util::future::join_all(claims).await {
                let (decision, round) = answer?;
                let Some(round) = round.filter(|_| may_run(&decision)) else {
                    self.ledger.callback(&decision);
                    continue;
                };
                ran += 1;
                let receipt = Bytes::from(format!("receipt {ran}"));
                let id = &round.reservation_id;
                let done = self.stage.complete(&self.resource, id, receipt).await?;
                self.ledger.callback(&done);
            }
        }
        Ok(ran)
    }

    /// How the sidecar sees it.
    pub(super) async fn inspect(&self) -> Result<Snapshot, Trouble> {
        self.stage.inspect(&self.resource).await
    }

    /// What the handler asks when a payment's callback comes in. Each delivery makes a receipt of its own, so that a replay
    /// of the first is told from a second booking.
    fn payment(&self, callback: Callback) -> (Bytes, TransitionRequest) {
        let receipt = Bytes::from(format!("receipt {}", Uuid::new_v4().simple()));
        let pay = Step {
            matches: Some((ATTEMPT, callback.attempt.to_owned())),
            content: Content::Json(Bytes::from_static(callback.body.as_bytes())),
            ..step(callback.key, "pay", Way::Moves(PENDING, "paid"))
        };
        let result = Stored {
            sha256: Bytes::new(),
            body: receipt.clone(),
            code: 200,
            content_type: "text/plain".into(),
            headers: Vec::new(),
        };
        let request = TransitionRequest {
            result: Some(result),
            ..self.stage.asked(&self.resource, pay)
        };
        (receipt, request)
    }

    async fn start_payment(&self, key: &str, attempt: &str) -> Result<(), Trouble> {
        let start = Step {
            sets: Some((ATTEMPT, attempt.to_owned())),
            ..step(key, "start_payment", Way::Stays(PENDING))
        };
        self.stage.step(&self.resource, start).await
    }

    /// A step of the shop's own.
    async fn step(&self, key: &str, event: &'static str, way: Way) -> Result<(), Trouble> {
        self.stage.step(&self.resource, step(key, event, way)).await
    }
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
