//! The scenes, by the numbers under which the docs tell them.

mod changed_amount;
mod dead_worker;
mod empty_result;
mod late_payment;
mod late_release;
mod lost_answer;
mod paused_worker;
mod reverse_order;
mod which_attempt;

use super::super::trouble::Trouble;
use super::stage::{Played, Stage};

/// A scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scene {
    /// The callback comes after the customer has cancelled.
    LatePayment,
    /// The answer to a callback is lost; ten copies come at once.
    LostAnswer,
    /// "Paid" comes after the parcel has left.
    ReverseOrder,
    /// The release of an earlier hold comes late.
    LateRelease,
    /// A worker wakes up after its time.
    PausedWorker,
    /// A note is edited, and a second attempt to pay is started.
    WhichAttempt,
    /// The same key comes with another amount.
    ChangedAmount,
    /// The work is done, and its worker died before the answer.
    DeadWorker,
    /// The work is done and has nothing to say.
    EmptyResult,
}

impl Scene {
    /// In the order of their numbers.
    pub(super) const ALL: [Self; 9] = [
        Self::LatePayment,
        Self::LostAnswer,
        Self::ReverseOrder,
        Self::LateRelease,
        Self::PausedWorker,
        Self::WhichAttempt,
        Self::ChangedAmount,
        Self::DeadWorker,
        Self::EmptyResult,
    ];

    /// Why the numbers have gaps.
    pub(super) const MISSING: &str =
        "Scenes 10 to 12 need timers and tasks, which do not exist yet.";

    /// The number under which the docs tell it.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::LatePayment => 1,
            Self::LostAnswer => 2,
            Self::ReverseOrder => 3,
            Self::LateRelease => 4,
            Self::PausedWorker => 5,
            Self::WhichAttempt => 6,
            Self::ChangedAmount => 7,
            Self::DeadWorker => 8,
            Self::EmptyResult => 9,
        }
    }

    /// What happens.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::LatePayment => "the payment's callback comes after the customer has cancelled",
            Self::LostAnswer => {
                "the callback was processed, its answer was lost, and copies keep coming"
            }
            Self::ReverseOrder => "\"paid\" comes half an hour late, when the parcel has left",
            Self::LateRelease => {
                "a seat is let go and held by another, then its first hold's release comes"
            }
            Self::PausedWorker => {
                "a worker is paused past its time and wakes up while another works"
            }
            Self::WhichAttempt => {
                "a note is edited, or a new payment is started, while a callback is under way"
            }
            Self::ChangedAmount => "the same callback comes again, with another amount",
            Self::DeadWorker => "the work is done, and its worker dies before the answer",
            Self::EmptyResult => "the work is done, has nothing to say, and is asked for again",
        }
    }

    /// What would be lost.
    pub(super) fn stake(self) -> &'static str {
        match self {
            Self::LatePayment => "money taken for a cancelled order",
            Self::LostAnswer => "the same payment booked twice",
            Self::ReverseOrder => "a shipped order thrown back to paid",
            Self::LateRelease => "a seat taken from who holds it",
            Self::PausedWorker => "two workers writing to one parcel",
            Self::WhichAttempt => "a good callback lost, an old one believed",
            Self::ChangedAmount => "a wrong amount overwriting the right one",
            Self::DeadWorker => "a card charged twice, or a result made up",
            Self::EmptyResult => "the same e-mail sent again",
        }
    }

    /// Plays it.
    pub(super) async fn play(self, stage: &Stage) -> Result<Played, Trouble> {
        match self {
            Self::LatePayment => late_payment::play(stage).await,
            Self::LostAnswer => lost_answer::play(stage).await,
            Self::ReverseOrder => reverse_order::play(stage).await,
            Self::LateRelease => late_release::play(stage).await,
            Self::PausedWorker => paused_worker::play(stage).await,
            Self::WhichAttempt => which_attempt::play(stage).await,
            Self::ChangedAmount => changed_amount::play(stage).await,
            Self::DeadWorker => dead_worker::play(stage).await,
            Self::EmptyResult => empty_result::play(stage).await,
        }
    }
}
