//! Scene 9: done and empty is not "never seen".

use bytes::Bytes;

use super::super::super::table::bare;
use super::super::super::trouble::Trouble;
use super::super::stage::{Played, Stage, may_run, said, settled};
use crate::proto::v1::{
    Decision, Intent, OperationState, Resource, TransitionRequest, intent::Content,
};

const KEY: &str = "remind-2031-05-01";
const TTL_SECONDS: i64 = 30;
/// How often the reminder is asked for.
const TIMES: usize = 3;

/// Plays it.
pub(super) async fn play(stage: &Stage) -> Result<Played, Trouble> {
    let customer = stage.resource("customer", "scene-9");
    let mut mails = 0_u32;
    for _ in 0..TIMES {
        remind(stage, &customer, &mut mails).await?;
    }
    let again = stage.transition(done(&customer, "")).await?;
    let state = stage.lookup(&customer, KEY).await?;
    let other = stage.lookup(&customer, "remind-2031-06-01").await?;
    let replayed = again.result.clone().unwrap_or_default().body;
    Ok(Played::new([
        format!("A reminder with nothing to report was asked for {TIMES} times, then its completion was sent again."),
        said(&again),
        format!(
            "Lookup says {}, and {} of a reminder that nobody asked for.",
            bare(state.as_str_name(), "OPERATION_STATE_"),
            bare(other.as_str_name(), "OPERATION_STATE_")
        ),
    ])
    .came_out(format!("{mails} e-mail, replayed {} bytes", replayed.len()))
    .must(mails == 1, format!("{mails} e-mails were sent, not one"))
    .must(settled(&again) && replayed.is_empty(), "the empty result was not replayed as done and empty")
    .must(state == OperationState::DoneEmpty, "Lookup does not know that it is done and empty")
    .must(other == OperationState::NeverSeen, "Lookup knows of what never was"))
}

/// A worker's handler: takes the customer, asks whether it was done, does it, says so, lets go.
async fn remind(stage: &Stage, customer: &Resource, mails: &mut u32) -> Result<(), Trouble> {
    let (decision, round) = stage.reserve(customer, TTL_SECONDS, "reminder").await?;
    let Some(round) = round.filter(|_| may_run(&decision)) else {
        return Ok(());
    };
    if stage.lookup(customer, KEY).await? == OperationState::NeverSeen {
        *mails += 1;
        let _: Decision = stage
            .transition(done(customer, &round.reservation_id))
            .await?;
    }
    stage.release(&round.reservation_id).await?;
    Ok(())
}

fn done(customer: &Resource, reservation_id: &str) -> TransitionRequest {
    TransitionRequest {
        resource: Some(customer.clone()),
        intent: Some(Intent {
            operation_id: KEY.into(),
            content: Some(Content::Raw(Bytes::from_static(b"be reminded"))),
            ..Intent::default()
        }),
        reservation_id: reservation_id.to_owned(),
        ..TransitionRequest::default()
    }
}
