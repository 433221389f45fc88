//! What really happened in the demo's own world. It believes the outside world's books, never a printed verdict.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::proto::v1::{Advice, Decision};

/// What the sender of a callback was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// HTTP status.
    pub(super) status: u16,
    /// Body, byte for byte.
    pub(super) body: Bytes,
}

/// The books of a shop whose handler does what the advice says and thinks no further.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Receipts under which money was booked; a receipt is booked once, another receipt is other money.
    pub(super) booked: BTreeSet<Bytes>,
    /// Parcels that left the house.
    pub(super) shipments: u32,
    /// Matters that a person was called for.
    pub(super) alerts: BTreeSet<String>,
    /// What senders were answered, in order.
    pub(super) answers: Vec<Answer>,
}

impl Ledger {
    /// A callback's handler: answers the sender by the advice, books the receipt in the answer, calls a person if told to.
    pub(super) fn callback(&mut self, decision: &Decision) {
        if !decision.incident_id.is_empty() {
            self.alerts.insert(decision.incident_id.clone());
        }
        let (status, body) = match decision.advice() {
            Advice::Proceed | Advice::Acknowledge => {
                let body = decision.result.clone().unwrap_or_default().body;
                if !body.is_empty() {
                    self.booked.insert(body.clone());
                }
                (200, body)
            }
            Advice::Refuse => (409, Bytes::new()),
            Advice::Retry | Advice::Abandon => (503, Bytes::new()),
            Advice::Unspecified => (500, Bytes::new()),
        };
        self.answers.push(Answer { status, body });
    }

    /// The statuses that senders were answered.
    pub(super) fn statuses(&self) -> Vec<u16> {
        self.answers.iter().map(|answer| answer.status).collect()
    }

    /// What senders and persons were told, in words.
    pub(super) fn told(&self) -> String {
        let statuses: Vec<String> = self
            .answers
            .iter()
            .map(|answer| answer.status.to_string())
            .collect();
        let mut text = format!("The sender was answered {}", statuses.join(", then "));
        if self.alerts.is_empty() {
            text.push_str("; nobody was called.");
        } else {
            let ids: Vec<&str> = self.alerts.iter().map(String::as_str).collect();
            text.push_str(&format!(
                "; a person was called: incident {}.",
                ids.join(", ")
            ));
        }
        text
    }

    /// How many of the answers said 200 with this body.
    pub(super) fn answered_with(&self, body: &Bytes) -> usize {
        self.answers
            .iter()
            .filter(|answer| answer.status == 200 && answer.body == *body)
            .count()
    }

    /// True if money was booked under this receipt and no other.
    pub(super) fn booked_only(&self, receipt: &Bytes) -> bool {
        self.booked.len() == 1 && self.booked.contains(receipt)
    }
}
