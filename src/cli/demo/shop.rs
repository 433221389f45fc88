//! One order of a shop, as the shop's own code would drive it.

use bytes::Bytes;
use uuid::Uuid;

use super::super::trouble::Trouble;
use super::ledger::Ledger;
use super::stage::{Stage, may_run, settled};
use crate::proto::v1::{
    Decision, Intent, Move, Resource, Result as Stored, Snapshot, TransitionRequest,
    intent::Content,
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
            resource: stage.resource("order", name),
            ledger: Ledger::default(),
        };
        let movement = Move {
            to_state: PENDING.into(),
            initial_state: "new".into(),
            sets: [(ATTEMPT.to_owned(), attempt.to_owned())].into(),
        };
        order.step("place", "new", movement).await?;
        Ok(order)
    }

    /// The customer cancels.
    pub(super) async fn cancel(&self) -> Result<(), Trouble> {
        self.step("cancel", PENDING, to("cancelled")).await
    }

    /// Somebody edits the delivery note.
    pub(super) async fn edit_note(&self) -> Result<(), Trouble> {
        self.step("edit-note", PENDING, Move::default()).await
    }

    /// The customer starts to pay once more.
    pub(super) async fn pay_again(&self, attempt: &str) -> Result<(), Trouble> {
        let movement = Move {
            sets: [(ATTEMPT.to_owned(), attempt.to_owned())].into(),
            ..Move::default()
        };
        self.step("pay-again", PENDING, movement).await
    }

    /// The warehouse sends the parcel, if the order may move on.
    pub(super) async fn ship(&mut self) -> Result<(), Trouble> {
        self.step("ship", "paid", to("shipped")).await?;
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
        let intent = Intent {
            operation_id: callback.key.to_owned(),
            event: String::new(),
            identity: [(ATTEMPT.to_owned(), callback.attempt.to_owned())].into(),
            content: Some(Content::Json(Bytes::from_static(callback.body.as_bytes()))),
            from_states: vec![PENDING.into()],
            r#move: Some(to("paid")),
            ..Intent::default()
        };
        let result = Stored {
            sha256: Bytes::new(),
            body: receipt.clone(),
            code: 200,
            content_type: "text/plain".into(),
            headers: Vec::new(),
        };
        let request = TransitionRequest {
            resource: Some(self.resource.clone()),
            intent: Some(intent),
            result: Some(result),
            ..TransitionRequest::default()
        };
        (receipt, request)
    }

    /// A step of the shop's own. The scene rests on it, so it must be settled.
    async fn step(&self, key: &str, from: &str, movement: Move) -> Result<(), Trouble> {
        let intent = Intent {
            operation_id: key.to_owned(),
            content: Some(Content::Raw(Bytes::new())),
            from_states: vec![from.to_owned()],
            r#move: Some(movement),
            ..Intent::default()
        };
        let decision = self
            .stage
            .transition(TransitionRequest {
                resource: Some(self.resource.clone()),
                intent: Some(intent),
                ..TransitionRequest::default()
            })
            .await?;
        if settled(&decision) {
            return Ok(());
        }
        Err(Trouble::failed(format!(
            "the shop's own step `{key}` was turned away: {}",
            decision.explanation
        )))
    }
}

fn to(state: &str) -> Move {
    Move {
        to_state: state.to_owned(),
        ..Move::default()
    }
}
