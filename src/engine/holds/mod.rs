//! Holding reservations for as long as their holder stays on a stream.
//!
//! A stream is opened with the names of its reservations. Each is looked up once, then renewed at about a third of its TTL, and
//! its holder is told of each renewal, of one that fails, and of the loss. A loss is decided here at the latest when the last
//! confirmed renewal ends, on a clock that runs through suspend, whether or not etcd can be reached.

mod checker;
mod closing;
mod news;
mod renewer;
mod strain;
mod table;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use news::{Held, HoldNews};
pub(super) use strain::Strain;

use super::clock::Boottime;
use super::facade::{Caller, Engine};
use super::fault::Fault;
use super::lane::Shared;
use super::lanes::Lanes;
use super::ticket::{Patience, Progress, Ticket, within};
use crate::domain::decision::{Decision, Layer, Rule, Verdict};
use crate::domain::ids::{ReservationId, ResourceId};
use crate::domain::judge::{Answer, Ask, HeldRound};
use crate::domain::token::Revision;
use checker::Checker;
use closing::Closing;
use news::Mailbox;
use renewer::{Doing, Room};
use table::{Entry, Holding, Table};

/// Most reservations of one stream.
pub const HELD_PER_STREAM_MAX: usize = 1024;
/// Most reservations held at once, over all streams.
pub const HELD_MAX: usize = 64 * 1024;
// Each may hang on a lease that was granted here.
const _: () = assert!(HELD_MAX < super::leases::LEASES_MAX);

/// When to ask again once as many are held: a place comes free when a stream ends or a reservation is lost.
const HELD_RETRY: Duration = Duration::from_secs(1);

/// What becomes of the reservations when their stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtClose {
    /// They run out, or their holder goes on with them.
    Keep,
    /// They are released.
    Release,
}

/// How many are held, and what became of renewals since the sidecar started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holdings {
    /// Reservations held now, once for each stream.
    pub held: usize,
    /// Of these, those whose renewal is due or tried just now.
    pub due: usize,
    /// Of these, those that wait for a renewal although only half of their TTL is left.
    pub late: usize,
    /// Renewals confirmed.
    pub renewed: u64,
    /// Tries that failed.
    pub failed: u64,
    /// Losses that holders were told of.
    pub lost: u64,
    /// Whether renewals are so late that no new reservations are granted.
    pub strained: bool,
    /// Grants refused for that.
    pub refused: u64,
}

/// All holds. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Holds {
    shared: Arc<Shared>,
    lanes: Arc<Lanes>,
    checker: Checker,
    table: Arc<Mutex<Table>>,
    room: Arc<Room>,
    doing: Arc<Doing>,
    strain: Strain,
    places: Arc<Semaphore>,
}

/// A stream of one holder. Dropping it ends it.
#[derive(Debug)]
pub struct Hold {
    holds: Holds,
    mailbox: Arc<Mailbox>,
    _close: DropGuard,
}

/// Why nothing more is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldEnd {
    /// All reservations are lost.
    AllLost,
    /// The sidecar is going down.
    Stopping,
}

impl Hold {
    /// The next news; waits for some.
    pub async fn next(&mut self) -> Result<Held, HoldEnd> {
        tokio::select! {
            biased;
            () = self.holds.shared.tasks.told_to_stop() => Err(HoldEnd::Stopping),
            news = self.mailbox.next() => news.ok_or(HoldEnd::AllLost),
        }
    }
}

impl Holds {
    pub(super) fn start(shared: Arc<Shared>, lanes: Arc<Lanes>, strain: Strain) -> Self {
        let holds = Self {
            checker: Checker::start(shared.store.clone(), &shared.tasks),
            shared,
            lanes,
            table: Arc::default(),
            room: Arc::default(),
            doing: Arc::default(),
            strain,
            places: Arc::new(Semaphore::new(HELD_MAX)),
        };
        let tasks = &holds.shared.tasks;
        tasks.spawn_background(holds.clone().run());
        tasks.spawn_background(holds.clone().hear_of_ends());
        holds
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a resource's lane.
    async fn ask(&self, resource: &ResourceId, ask: Ask) -> Result<Answer, Fault> {
        let (ticket, answer) = Ticket::new(ask, Progress::default(), Patience::None);
        self.lanes.submit(resource, ticket);
        answer.await.unwrap_or(Err(Fault::Stopping {
            retry_after: closing::STOPPING_RETRY,
        }))
    }

    /// What is known of a reservation that a stream names, and its loss if it is over.
    async fn look_up(
        &self,
        reservation: &ReservationId,
    ) -> Result<Result<Holding, Decision>, Fault> {
        let timeline = self.shared.store.timeline();
        let check = Ask::Check(reservation.clone());
        match self.ask(reservation.resource(), check).await? {
            Answer::Held(_, round) => Ok(Ok(Holding {
                reservation: reservation.clone(),
                granted: granted_at(&round, timeline.base).map(|at| (at, timeline.id)),
                round,
            })),
            other @ (Answer::Judged(_)
            | Answer::Ended(..)
            | Answer::Known(..)
            | Answer::Snapshot(_)
            | Answer::Swept) => Ok(Err(super::facade::judged(other))),
        }
    }
}

impl Engine {
    /// Holds reservations for as long as the stream is read. Answers once each was looked up; what is over by then is the first
    /// news. At most `HELD_PER_STREAM_MAX`, each once.
    pub async fn hold(
        &self,
        reservations: Vec<ReservationId>,
        at_close: AtClose,
        caller: Caller,
    ) -> Result<Hold, Fault> {
        self.admit(caller)?;
        let holds = &self.holds;
        let count = u32::try_from(reservations.len()).unwrap_or(u32::MAX);
        let places = Arc::clone(&holds.places).try_acquire_many_owned(count);
        let places = places.map_err(|_| Fault::Overloaded {
            what: "too many reservations are held on streams at this sidecar",
            limit: HELD_MAX,
            retry_after: HELD_RETRY,
        })?;
        let lookups = reservations
            .iter()
            .map(|reservation| holds.look_up(reservation));
        let found = async { Ok(futures_util::future::join_all(lookups).await) };
        let found = within(caller.deadline, &Progress::default(), Box::pin(found)).await?;
        let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;

        let mailbox = Arc::new(Mailbox::new(reservations));
        let mut ids = Vec::new();
        for (slot, found) in found.into_iter().enumerate() {
            match found {
                Ok(holding) => {
                    let certain = holds.shared.leases.known_until(holding.round.nonce);
                    let certain = certain.map(|until| within_ttl(&holding.round, until, caller));
                    let mailbox = Arc::clone(&mailbox);
                    let entry = Entry::new(holding, mailbox, slot, caller.arrived, certain);
                    ids.push(holds.table().insert(entry));
                }
                Err(over) => mailbox.put(slot, HoldNews::Lost(Box::new(over))),
            }
        }
        holds.room.wanted.notify_one();
        let closed = CancellationToken::new();
        let closing = Closing {
            holds: holds.clone(),
            ids,
            at_close,
            closed: closed.clone(),
            _places: places,
        };
        self.shared.tasks.spawn(closing.run());
        Ok(Hold {
            holds: holds.clone(),
            mailbox,
            _close: closed.drop_guard(),
        })
    }

    /// How the holds are doing.
    pub fn holdings(&self) -> Holdings {
        let Holds { doing, strain, .. } = &self.holds;
        let now = Boottime::now();
        let (held, due, late) = {
            let table = self.holds.table();
            (table.len(), table.due(now), table.late(now, table.len()))
        };
        Holdings {
            held,
            due,
            late,
            renewed: doing.renewed.load(Ordering::Relaxed),
            failed: doing.failed.load(Ordering::Relaxed),
            lost: doing.lost.load(Ordering::Relaxed),
            strained: strain.is_on(),
            refused: strain.refused(),
        }
    }
}

/// A lease lasts longer than what is promised; more than a whole TTL from now was promised to nobody.
fn within_ttl(round: &HeldRound, until: Boottime, caller: Caller) -> Boottime {
    until.min(caller.arrived.plus(round.ttl.as_duration()))
}

fn granted_at(round: &HeldRound, base: u64) -> Option<Revision> {
    let revision = round.token.get().checked_sub(base)?;
    Revision::from_etcd(i64::try_from(revision).ok()?)
}

/// The judgement about a reservation that no renewal was confirmed of in its time. Whether anybody holds the resource since
/// is not known: etcd was not heard.
fn ran_out() -> Decision {
    Decision {
        verdict: Verdict::Fenced,
        advice_instead: None,
        event: None,
        layer: Layer::Fence,
        rule: Rule::Lost,
        explanation: "the reservation's time ran out before a renewal was confirmed".to_owned(),
        result: None,
        retry_after: None,
        incident: None,
        now: None,
        expected: Vec::new(),
        differing: Vec::new(),
        same_content_as: None,
        first_time_ms: None,
        deliveries: None,
        result_unkept: false,
        only_asked: false,
        resolution: None,
    }
}
