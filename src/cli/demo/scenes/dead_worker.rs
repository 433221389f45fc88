//! Scene 8: no result is made up for work whose worker died; what was declared decides who may run it again.

use std::time::Duration;

use bytes::Bytes;

use super::super::super::trouble::Trouble;
use super::super::stage::{Played, Stage, may_run, said};
use crate::proto::v1::{
    Advice, Decision, Intent, Move, OperationState, Reservation, Resource, intent::Content,
};

/// The shortest reservation there is: the scene waits for its end.
const TTL_SECONDS: i64 = 3;
/// How long the scene waits for the claims to die, at most.
const DEATH_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What a worker is to do.
struct Work<'a> {
    stage: &'a Stage,
    resource: Resource,
    intent: Intent,
    /// How often it was done in the world.
    done: u32,
    last: Option<Decision>,
}

impl<'a> Work<'a> {
    fn new(stage: &'a Stage, kind: &str, key: &str, rerun_if_interrupted: bool) -> Self {
        let intent = Intent {
            operation_id: key.to_owned(),
            content: Some(Content::Raw(Bytes::from_static(b"15.00 EUR"))),
            r#move: Some(Move {
                to_state: "done".into(),
                initial_state: "new".into(),
                ..Move::default()
            }),
            rerun_if_interrupted,
            ..Intent::default()
        };
        Self {
            stage,
            resource: stage.resource(kind, "scene-8"),
            intent,
            done: 0,
            last: None,
        }
    }

    /// One delivery: the handler does the work if it may, and does not come to say so.
    async fn deliver(&mut self, ttl_seconds: i64) -> Result<Option<Reservation>, Trouble> {
        let intent = self.intent.clone();
        let (decision, round) = self
            .stage
            .claim(&self.resource, ttl_seconds, intent)
            .await?;
        let round = round.filter(|_| may_run(&decision));
        if round.is_some() {
            self.done += 1;
        }
        self.last = Some(decision);
        Ok(round)
    }

    async fn state(&self) -> Result<OperationState, Trouble> {
        let key = &self.intent.operation_id;
        self.stage.lookup(&self.resource, key).await
    }

    /// Waits until the reservation is over.
    async fn dies(&self) -> Result<(), Trouble> {
        let looks = async {
            while self.stage.inspect(&self.resource).await?.live_token != 0 {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Ok(())
        };
        tokio::time::timeout(DEATH_WITHIN, looks)
            .await
            .unwrap_or_else(|_| Err(Trouble::failed("a reservation does not end")))
    }

    fn said(&self) -> String {
        self.last.as_ref().map(said).unwrap_or_default()
    }
}

/// Plays it.
pub(super) async fn play(stage: &Stage) -> Result<Played, Trouble> {
    let mut charge = Work::new(stage, "charge", "charge-1008", false);
    let mut mail = Work::new(stage, "mail", "mail-1008", true);
    let lost = charge.deliver(TTL_SECONDS).await?;
    mail.deliver(TTL_SECONDS).await?;
    charge.dies().await?;
    mail.dies().await?;

    // Both come again: the provider never got an answer.
    charge.deliver(TTL_SECONDS).await?;
    let asked = charge.last.clone().unwrap_or_default();
    let state = charge.state().await?;
    let second = mail.deliver(30).await?;
    let attempt = second.as_ref().map_or(0, |round| round.attempt);
    let receipt = Bytes::from_static(b"sent");
    if let Some(round) = &second {
        stage
            .complete(&mail.resource, &round.reservation_id, receipt.clone())
            .await?;
    }
    mail.deliver(30).await?;
    let replayed = mail.last.clone().unwrap_or_default().result;
    let replayed = replayed.unwrap_or_default().body;

    // And the worker was not dead after all.
    let late = match &lost {
        Some(round) => {
            let said = Bytes::from_static(b"charged");
            let id = &round.reservation_id;
            Some(stage.complete(&charge.resource, id, said).await?)
        }
        None => None,
    };
    let kept = late
        .as_ref()
        .is_some_and(|late| !late.incident_id.is_empty());
    let stopped = late.as_ref().map(Decision::advice) == Some(Advice::Abandon);
    let now = stage.inspect(&charge.resource).await?;
    Ok(Played::new([
        "Two workers did their work and died before they could say so: one had charged a card, which a person must decide \
         about; one had sent a mail, which may go out again. Both messages came again."
            .to_owned(),
        format!("The charge: {}", charge.said()),
        late.as_ref().map(|late| format!("Its late result: {}", said(late))).unwrap_or_default(),
        format!(
            "The card was charged {} time, the mail went out {} times (attempt {attempt}), and its result was replayed.",
            charge.done, mail.done
        ),
    ])
    .came_out(format!("{} charge, {} mails, 1 person called", charge.done, mail.done))
    .must(charge.done == 1, format!("the card was charged {} times", charge.done))
    .must(asked.advice() == Advice::Retry, "the provider was told that the charge is settled")
    .must(!asked.incident_id.is_empty(), "nobody was called to look into the charge")
    .must(state == OperationState::Interrupted, "Lookup does not tell that the charge was interrupted")
    .must(now.state.is_empty(), format!("the charge is {}, which nobody has found out", now.state))
    .must(stopped && kept, "the late result was not kept for whoever looks into it")
    .must(mail.done == 2 && attempt == 2, format!("the mail was tried {} times, attempt {attempt}", mail.done))
    .must(replayed == receipt, "the mail's result was not replayed"))
}
