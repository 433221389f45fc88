//! Starting a new timeline, after etcd was restored from a backup.

use std::time::Duration;

use tracing::{info, warn};

use super::clock::wall_clock_ms;
use super::facade::{Caller, Engine, question_failed, random_nonce};
use super::fault::{Fault, HowFar};
use super::ticket::{Progress, UNKNOWN_RETRY};
use crate::domain::ids::{Holder, Reason};
use crate::domain::timeline::{Halt, Start, Stored};
use crate::domain::token::{FencingToken, Timeline};
use crate::store::StoreError;
use crate::store::error::NotApplied;
use crate::store::new_timeline::Started;

/// How often the first step is tried because the timeline was changed meanwhile, as by a halt.
const BEGIN_TRIES_MAX: usize = 8;
/// How often a step that removes reservations is tried while etcd does not answer.
const STEP_TRIES_MAX: usize = 10;
/// The pause before a step is tried again.
const STEP_PAUSE: Duration = Duration::from_millis(500);

/// A person asks for a new timeline.
#[derive(Clone, Debug)]
pub struct StartAsk {
    /// Who.
    pub by: Holder,
    /// Why.
    pub reason: Reason,
    /// A token that is known to have been granted; all new ones are to be above it.
    pub above: Option<FencingToken>,
}

/// The timeline that is in force now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewTimeline {
    /// It.
    pub timeline: Timeline,
    /// How many reservations were ended.
    pub ended: usize,
}

/// The timeline, and how it came to be.
#[derive(Clone, Debug)]
pub struct TimelineNow {
    /// It.
    pub timeline: Timeline,
    /// Why nothing is judged in it.
    pub halt: Option<Halt>,
    /// Those that persons have started, the latest first.
    pub starts: Vec<Started>,
}

impl Engine {
    /// Starts a new timeline, and waits until it is in force. A start that was cut short is made good by another one.
    pub async fn start_timeline(
        &self,
        ask: StartAsk,
        caller: Caller,
    ) -> Result<NewTimeline, Fault> {
        self.admit(caller)?;
        let progress = Progress::default();
        let (engine, sent) = (self.clone(), progress.clone());
        let work = async move {
            if !sent.send() {
                return Err(Fault::DeadlinePassed);
            }
            let begun = Box::pin(engine.begin_timeline(&ask)).await?;
            engine.finish_timeline(begun).await
        };
        self.finish(caller, &progress, work).await
    }

    /// Tells of the timeline in force as etcd has it now.
    pub async fn timeline_now(&self, caller: Caller) -> Result<TimelineNow, Fault> {
        let asking = async {
            let store = &self.shared.store;
            let before = store.timeline_to_follow().await;
            let before = before.map_err(|error| question_failed(&error))?;
            let starts = store.timeline_starts().await;
            Ok(TimelineNow {
                timeline: before.stored.timeline,
                halt: before.stored.halt,
                starts: starts.map_err(|error| question_failed(&error))?,
            })
        };
        self.question(caller, asking).await
    }

    /// From here on every commit is refused, by every sidecar.
    async fn begin_timeline(&self, ask: &StartAsk) -> Result<Begun, Fault> {
        let store = &self.shared.store;
        for _ in 0..BEGIN_TRIES_MAX {
            let before = store.timeline_to_follow().await;
            let before = before.map_err(|error| question_failed(&error))?;
            let time_ms = wall_clock_ms();
            let start = Start {
                id: random_nonce(),
                now_s: time_ms / 1000,
                clock_is_behind: self.shared.clock.wall_is_behind(),
                known: before.known,
                largest: before.largest,
                above: ask.above,
            };
            let changed = before.changed.unwrap_or(before.now);
            let next = start.after(&before.stored, changed);
            let timeline = next.map_err(|invalid| Fault::InvalidField {
                field: "above".to_owned(),
                reason: invalid.to_string(),
            })?;
            let started = Started {
                id: timeline.id,
                base: timeline.base,
                by: ask.by.clone(),
                reason: ask.reason.clone(),
                time_ms,
                halt: before.stored.halt,
                before: before.stored.timeline.id,
            };
            let starting = Stored {
                timeline,
                began_s: start.now_s,
                halt: Some(Halt::Starting { time_ms }),
                // Its base is above all that is known.
                largest: 0,
            };
            let begun = store.begin_timeline(&before, starting, &started).await;
            if let Some(changed) = begun.map_err(|error| step_failed(error, HowFar::Nothing))? {
                info!(
                    id = ?timeline.id,
                    base = timeline.base,
                    by = %ask.by,
                    reason = %ask.reason,
                    "a new timeline is being started: nothing is judged until it is in force"
                );
                return Ok(Begun { starting, changed });
            }
        }
        Err(Fault::TimelineSuperseded)
    }

    /// Removes all reservations, and puts the timeline in force.
    async fn finish_timeline(&self, begun: Begun) -> Result<NewTimeline, Fault> {
        let store = &self.shared.store;
        let mut ended = 0;
        loop {
            let removed = patiently(|| store.remove_some(begun.changed)).await?;
            ended += removed.keys;
            if removed.all {
                break;
            }
        }
        patiently(|| store.put_in_force(begun.starting, begun.changed)).await?;
        let timeline = begun.starting.timeline;
        info!(id = ?timeline.id, ended, "the new timeline is in force");
        Ok(NewTimeline { timeline, ended })
    }
}

/// A timeline whose first step was made.
#[derive(Clone, Copy)]
struct Begun {
    starting: Stored,
    changed: crate::domain::token::Revision,
}

/// Tries a step again while etcd does not answer.
async fn patiently<T, F>(step: impl Fn() -> F) -> Result<T, Fault>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut tries = 0;
    loop {
        let error = match step().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        // Neither passes by itself.
        let is_final = matches!(
            error,
            StoreError::Full { .. }
                | StoreError::NotApplied {
                    reason: NotApplied::TimelineMoved,
                    ..
                }
        );
        tries += 1;
        if is_final || tries >= STEP_TRIES_MAX {
            return Err(step_failed(error, HowFar::Begun));
        }
        warn!(%error, "a step towards a new timeline failed; trying again");
        tokio::time::sleep(STEP_PAUSE).await;
    }
}

/// What was begun may be half-done; another start makes it good.
fn step_failed(error: StoreError, how_far: HowFar) -> Fault {
    match error {
        StoreError::NotApplied {
            reason: NotApplied::TimelineMoved,
            ..
        } => Fault::TimelineSuperseded,
        StoreError::Indeterminate { .. } | StoreError::NotApplied { .. } => {
            warn!(%error, "a new timeline was not started to its end");
            Fault::UnknownOutcome {
                retry_after: UNKNOWN_RETRY,
            }
        }
        StoreError::Full { .. } => {
            warn!(%error, ?how_far, "a new timeline was not started");
            Fault::start_needs_space(how_far)
        }
        StoreError::Corrupt { .. } => question_failed(&error),
    }
}
