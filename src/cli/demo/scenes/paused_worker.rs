//! Scene 5: the one that wakes up late is turned away everywhere, also after its successor has finished.

use std::time::Duration;

use bytes::Bytes;

use super::super::super::trouble::Trouble;
use super::super::stage::{Played, Stage, may_run, said, settled};
use crate::proto::v1::{
    Decision, Intent, Move, Reservation, Resource, Result as Stored, TransitionRequest,
    intent::Content,
};

/// The shortest time to hold, in seconds, so that nobody waits long.
const SHORT_TTL_SECONDS: i64 = 3;
const TTL_SECONDS: i64 = 30;
/// How often and how many times to look whether the first hold is over: half a minute in all.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LOOKS_MAX: u32 = 300;

/// A store that keeps the largest token it has seen beside the value: `UPDATE … WHERE fence <= $1`.
#[derive(Debug, Default)]
struct Inventory {
    fence: i64,
    shelf: &'static str,
    turned_away: u32,
}

impl Inventory {
    fn write(&mut self, token: i64, shelf: &'static str) {
        if self.fence <= token {
            self.fence = token;
            self.shelf = shelf;
        } else {
            self.turned_away += 1;
        }
    }
}

/// A robot that carries the parcel to its shelf.
#[derive(Debug)]
struct Robot {
    key: &'static str,
    shelf: &'static str,
    round: Reservation,
    /// How often it swung its arm, which cannot compare tokens: it only asks Fence before.
    swings: u32,
    /// How often it was told that its shelf is where the parcel is.
    believed: u32,
}

impl Robot {
    async fn takes(
        stage: &Stage,
        parcel: &Resource,
        key: &'static str,
        shelf: &'static str,
        ttl_seconds: i64,
    ) -> Result<Self, Trouble> {
        let (decision, round) = stage.reserve(parcel, ttl_seconds, key).await?;
        match round {
            Some(round) if may_run(&decision) => Ok(Self {
                key,
                shelf,
                round,
                swings: 0,
                believed: 0,
            }),
            Some(_) | None => Err(Trouble::failed(format!(
                "{key} could not take the parcel: {}",
                said(&decision)
            ))),
        }
    }

    /// Does what the advice says at each of its three steps.
    async fn works(
        &mut self,
        stage: &Stage,
        parcel: &Resource,
        inventory: &mut Inventory,
    ) -> Result<[Decision; 2], Trouble> {
        let asked = stage.fence(parcel, self.round.token).await?;
        if may_run(&asked) {
            self.swings += 1;
        }
        inventory.write(self.round.token, self.shelf);
        let moved = stage
            .transition(TransitionRequest {
                resource: Some(parcel.clone()),
                intent: Some(Intent {
                    operation_id: self.key.into(),
                    content: Some(Content::Raw(Bytes::new())),
                    r#move: Some(Move {
                        to_state: self.shelf.into(),
                        initial_state: "at_the_door".into(),
                        ..Move::default()
                    }),
                    ..Intent::default()
                }),
                reservation_id: self.round.reservation_id.clone(),
                result: Some(Stored {
                    body: self.shelf.into(),
                    ..Stored::default()
                }),
                ..TransitionRequest::default()
            })
            .await?;
        if settled(&moved) {
            self.believed += 1;
        }
        Ok([asked, moved])
    }
}

/// Plays it.
pub(super) async fn play(stage: &Stage) -> Result<Played, Trouble> {
    let parcel = stage.resource("parcel", "scene-5");
    let mut inventory = Inventory::default();
    let mut first = Robot::takes(stage, &parcel, "robot-a", "shelf_3", SHORT_TTL_SECONDS).await?;
    until_free(stage, &parcel).await?;
    let mut second = Robot::takes(stage, &parcel, "robot-b", "shelf_9", TTL_SECONDS).await?;
    let held = stage.inspect(&parcel).await?;

    second.works(stage, &parcel, &mut inventory).await?;
    let [fenced, _] = first.works(stage, &parcel, &mut inventory).await?;
    stage.release(&second.round.reservation_id).await?;
    let [_, refused] = first.works(stage, &parcel, &mut inventory).await?;
    let now = stage.inspect(&parcel).await?;

    Ok(Played::new([
        format!(
            "Robot A took the parcel (token {}) and froze; its time ended; B took it (token {}) and put it on shelf 9.",
            first.round.token, second.round.token
        ),
        format!("A woke up and asked Fence: {}", said(&fenced)),
        format!("B had finished, A tried once more to move it: {}", said(&refused)),
    ])
    .came_out(format!(
        "{}; A: {} swings, {} of 2 writes",
        now.state,
        first.swings,
        2_u32.saturating_sub(inventory.turned_away)
    ))
    .must(second.round.token > first.round.token, "the later token is not the larger one")
    .must(held.live_token == second.round.token, "while B works, the live token is not B's")
    .must(second.swings == 1 && second.believed == 1, "B could not do its work")
    .must(first.swings == 0, format!("A swung its arm {} times after its time", first.swings))
    .must(first.believed == 0, "A was told that its shelf is where the parcel is")
    .must(
        inventory.shelf == "shelf_9" && inventory.turned_away == 2,
        format!("the inventory says {}", inventory.shelf),
    )
    .must(now.state == "shelf_9", format!("the parcel is on {}, not on shelf_9", now.state))
    .must(now.live_token == 0, "B's hold is still there after its release"))
}

async fn until_free(stage: &Stage, parcel: &Resource) -> Result<(), Trouble> {
    for _ in 0..LOOKS_MAX {
        if stage.inspect(parcel).await?.live_token == 0 {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Err(Trouble::failed(format!(
        "a hold of {SHORT_TTL_SECONDS} s that nobody renewed is still there after half a minute"
    )))
}
