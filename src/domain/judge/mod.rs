//! The judgement: what is known and what is asked go in, what to answer and what to write come out.
//!
//! A [`Fold`] takes one request after another for the same resource and judges each on the record as the ones before it left
//! it. All that it wants written is one commit, whose guards are what the fold believed at its start. If a guard fails,
//! nothing happened, and the same requests are folded again over what is true now.

mod alert;
mod answer;
mod by_machine;
mod claim;
mod commit;
mod complete;
mod evidence;
mod fence;
mod follow;
mod interrupted;
mod law;
mod law_of_claims;
mod look;
mod repeat;
mod reserve;
mod resolve;
mod several;
mod standing;
mod states;
mod sweep;
mod transition;
mod turn;

use std::collections::{BTreeMap, BTreeSet};

pub use answer::{Answer, Certainty, Draft, HeldRound, OperationState, TokenRef};
pub use commit::{
    Gone, INLINE_BYTES_MAX, INLINE_OPERATION_BYTES_MAX, RecordWrite, ReservationChange,
};
pub use interrupted::Condition;
pub use law::{Law, Unlawful};
pub use look::{Look, LookedInto};
pub use several::{Concerted, Several};
pub use standing::{Inconsistent, Standing, UNSAVED_COUNTS_MAX};
pub use sweep::SWEPT_OPERATIONS_MAX;
pub use turn::{Queue, Turn};

use super::claim::OpenOperation;
use super::decision::IncidentId;
use super::ids::{EventName, Nonce, OperationId, ReservationId, ResourceId};
use super::incident::{Incident, KeptEvidence};
use super::record::{LeaseId, Operation, Record, Round};
use super::request::{
    Complete, Fence, Intent, Left, Lookup, Purpose, Reserve, Resolve, Ride, Transition,
};
use super::retention::When;
use super::token::{Revision, Timeline};
use super::waiter::Place;

/// Most requests folded into one commit. Each adds at most one guard and two writes, which must stay below what one member
/// of a batch may hold.
pub const FOLD_REQUESTS_MAX: usize = 24;
/// Most writes of one commit, the record and the reservation key included.
pub const FOLD_WRITES_MAX: usize = 60;
/// Most bytes that one commit may add before the fold ends.
pub const FOLD_BYTES_MAX: usize = 256 * 1024;

const _: () = assert!(2 + 2 * FOLD_REQUESTS_MAX < FOLD_WRITES_MAX);

/// One request, with what was drawn for it.
#[derive(Clone, Debug)]
pub enum Ask {
    /// Reserve; the nonce names the round if it is granted, on this lease. `None`: none is taken before it is needed.
    Reserve(Reserve, Nonce, Option<LeaseId>),
    /// Reserve of a claim on a round that its holder has; the nonce tells this request's success from another's.
    Ride(Box<Ride>, Nonce),
    /// Release; the nonce tells this request's success from another's.
    Release(ReservationId, Left, Nonce),
    /// Transition; the nonce tells this request's success from another's.
    Transition(Box<Transition>, Nonce),
    /// Transition that names only the round of a claim; the nonce tells this request's success from another's.
    Complete(Box<Complete>, Nonce),
    /// A person resolves an operation; the nonce tells this request's success from another's.
    Resolve(Box<Resolve>, Nonce),
    /// Fence.
    Fence(Fence),
    /// Is this round live? Asked by Renew, before and after the keepalive.
    Check(ReservationId),
    /// Lookup.
    Lookup(Lookup),
    /// Inspect.
    Inspect,
    /// Remove what is kept longer than it must be; these operations are said to have keys of their own.
    Sweep(Vec<OperationId>),
}

impl Ask {
    /// The resource of which it delivers a message that is to be judged and carried out.
    pub fn delivered(&self) -> Option<&ResourceId> {
        match self {
            Self::Transition(ask, _) => (ask.purpose == Purpose::Commit).then_some(&ask.resource),
            Self::Complete(ask, _) => {
                (ask.purpose == Purpose::Commit).then(|| ask.reservation.resource())
            }
            Self::Reserve(ask, ..) => ask.intent.as_ref().map(|_| &ask.resource),
            Self::Ride(ask, _) => Some(ask.reservation.resource()),
            Self::Release(..)
            | Self::Resolve(..)
            | Self::Fence(_)
            | Self::Check(_)
            | Self::Lookup(_)
            | Self::Inspect
            | Self::Sweep(_) => None,
        }
    }

    /// The message that it brings, and of which resource.
    pub fn message(&self) -> Option<(&ResourceId, &Intent)> {
        match self {
            Self::Transition(ask, _) => Some((&ask.resource, &ask.intent)),
            Self::Reserve(ask, ..) => Some((&ask.resource, ask.intent.as_deref()?)),
            Self::Ride(ask, _) => Some((ask.reservation.resource(), &ask.intent)),
            Self::Complete(..)
            | Self::Release(..)
            | Self::Resolve(..)
            | Self::Fence(_)
            | Self::Check(_)
            | Self::Lookup(_)
            | Self::Inspect
            | Self::Sweep(_) => None,
        }
    }
}

/// What came of one request.
#[derive(Clone, Debug)]
pub enum Judged {
    /// Its answer.
    Answered(Box<Draft>),
    /// It has to wait for the next commit.
    Later,
    /// It would be granted, and brought no lease; nothing of it was taken up.
    Unleased,
    /// It cannot be judged by the law as it is believed to be; nothing of it was taken up.
    Unlawful(Unlawful),
    /// It can never work as asked; nothing of it was taken up.
    Unfit {
        /// Path of the field.
        field: &'static str,
        /// Completes the sentence.
        reason: &'static str,
    },
    /// A limit of the record was met; nothing of it was taken up.
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

impl Judged {
    /// Notes which event it is about, for a request that does not say it.
    fn of_event(self, event: Option<EventName>) -> Self {
        match self {
            Self::Answered(draft) => Self::Answered(Box::new(draft.of_event(event))),
            other @ (Self::Later
            | Self::Unleased
            | Self::Unlawful(_)
            | Self::Unfit { .. }
            | Self::Limit { .. }) => other,
        }
    }
}

/// What is known of an operation.
#[derive(Debug)]
enum Known {
    /// Nothing.
    Unknown,
    /// It was claimed, and is not finished.
    Open(Box<OpenOperation>),
    /// It is finished.
    Finished(Box<Operation>),
}

/// Why a result that is refused is not added to its incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddedNothing {
    /// It is there.
    Kept,
    /// There is no room for it.
    Full,
}

/// One round of judging, for one resource.
#[derive(Clone, Debug)]
pub struct Fold<'a> {
    resource: &'a ResourceId,
    timeline: Timeline,
    when: When,
    revision: Option<Revision>,
    standing: &'a Standing,
    law: &'a Law,
    /// Whether anything was judged by the law.
    lawful: bool,
    record: Record,
    /// Whether the record's last round holds the resource, as the fold has left it.
    live: Option<TokenRef>,
    changed: bool,
    reservation: ReservationChange,
    /// Operations that go to keys of their own, as they will stand there.
    moved_out: BTreeMap<OperationId, Operation>,
    incidents: Vec<Incident>,
    /// What is kept as evidence in incidents, as the fold leaves it.
    kept_evidence: BTreeMap<IncidentId, KeptEvidence>,
    /// Incidents of which that is not known and has to be.
    unread_evidence: BTreeSet<IncidentId>,
    /// What became of the result that the request that is judged brought, if it is refused and adds nothing.
    added_nothing: Option<AddedNothing>,
    /// Whether the record is put whatever comes of the requests.
    settles: bool,
    /// What a sweep removes.
    gone: Gone,
    /// Whether what is written is written by a sweep, and by nothing else.
    sweeping: bool,
    /// Operations that the fold takes to have no keys of their own.
    absent: BTreeSet<OperationId>,
    /// How often each finished operation was delivered again in this fold.
    again: BTreeMap<OperationId, u32>,
    /// Whether the caller of the request that is judged goes on waiting while its operation is in progress.
    caller_waits: bool,
    /// The place in the queue of the caller whose request is judged.
    place: Option<Place>,
    /// What the commit says of the queue.
    turn: Turn,
    /// Whether what is written shares its commit with other resources.
    joint: bool,
    requests: usize,
    bytes: usize,
}

impl<'a> Fold<'a> {
    /// Begins over what is known.
    pub fn begin(
        resource: &'a ResourceId,
        standing: &'a Standing,
        timeline: Timeline,
        when: When,
    ) -> Self {
        let (record, live) = standing.opened();
        Self {
            resource,
            timeline,
            when,
            revision: standing.revision(),
            standing,
            law: &Law::NoFile,
            lawful: false,
            record,
            live,
            changed: false,
            reservation: ReservationChange::Keep,
            moved_out: BTreeMap::new(),
            incidents: Vec::new(),
            kept_evidence: BTreeMap::new(),
            unread_evidence: BTreeSet::new(),
            added_nothing: None,
            settles: false,
            gone: Gone::default(),
            sweeping: false,
            absent: BTreeSet::new(),
            again: BTreeMap::new(),
            caller_waits: false,
            place: None,
            turn: Turn::None,
            joint: false,
            requests: 0,
            bytes: 0,
        }
    }

    /// Judges the next request of a caller that waits: that its operation is in progress is not told to it now, so that this is
    /// no answer to its delivery.
    pub fn judge_waiting(&mut self, ask: &Ask) -> Judged {
        self.judge_placed(ask, None, true)
    }

    /// Judges the next request.
    pub fn judge(&mut self, ask: &Ask) -> Judged {
        let full = self.requests >= FOLD_REQUESTS_MAX || self.bytes >= FOLD_BYTES_MAX;
        if full || self.sweeping {
            return Judged::Later;
        }
        self.requests += 1;
        self.added_nothing = None;
        let mut judged = self.judge_now(ask);
        if let Some(why) = self.added_nothing
            && let Judged::Answered(draft) = &mut judged
        {
            // It was refused because of what may have changed, like one whose refusal writes its result.
            draft.certainty = Certainty::Confirm;
            if why == AddedNothing::Full {
                draft.tell_unkept();
            }
        }
        if matches!(judged, Judged::Unlawful(_)) {
            // That rests on the law, whoever asked it; it has to be confirmed before anybody is told.
            self.lawful = true;
        }
        if let Judged::Answered(draft) = &mut judged
            && self.writes()
        {
            // What this fold is about to write is no fact yet, and an answer may rest on it.
            draft.certainty = Certainty::Confirm;
        }
        judged
    }

    fn judge_now(&mut self, ask: &Ask) -> Judged {
        match ask {
            Ask::Reserve(ask, nonce, lease) => self.reserve(ask, *nonce, *lease),
            Ask::Ride(ask, nonce) => self.ride(ask, *nonce),
            Ask::Release(reservation, left, nonce) => {
                self.release(reservation, left.clone(), *nonce)
            }
            Ask::Transition(ask, nonce) => match ask.purpose {
                Purpose::Commit => self.transition(ask, *nonce),
                Purpose::Validate => self.validate(|trial| trial.transition(ask, *nonce)),
            },
            Ask::Complete(ask, nonce) => match ask.purpose {
                Purpose::Commit => self.complete(ask, *nonce),
                Purpose::Validate => self.validate(|trial| trial.complete(ask, *nonce)),
            },
            Ask::Resolve(ask, nonce) => self.resolve(ask, *nonce),
            Ask::Fence(ask) => self.fence(ask),
            Ask::Check(reservation) => self.check(reservation),
            Ask::Lookup(ask) => self.lookup(ask),
            Ask::Inspect => self.inspect(),
            Ask::Sweep(apart) => self.sweep(apart),
        }
    }

    /// Whether there is anything to write so far.
    fn writes(&self) -> bool {
        let beside = !self.incidents.is_empty() || !self.moved_out.is_empty();
        self.changed || beside || !self.gone.is_nothing()
    }

    /// The round that holds the resource.
    fn live_round(&self) -> Option<(&Round, TokenRef)> {
        Some((self.record.round.as_ref()?, self.live?))
    }

    /// Whether this very round holds the resource.
    fn holds(&self, reservation: &ReservationId) -> bool {
        self.live_round()
            .is_some_and(|(round, _)| round.is_called(self.resource, reservation))
    }

    /// What is known of an operation. An open one is in the record, and so nowhere else.
    fn known(&mut self, id: &OperationId) -> Known {
        match self.record.open(id).cloned() {
            Some(open) => Known::Open(Box::new(open)),
            None => self
                .find(id)
                .map_or(Known::Unknown, |done| Known::Finished(Box::new(done))),
        }
    }

    /// A finished operation, wherever it is kept. When it is nowhere, its absence becomes a guard if it could be elsewhere.
    fn find(&mut self, id: &OperationId) -> Option<Operation> {
        let inline = self
            .record
            .operations
            .iter()
            .find(|operation| operation.id == *id);
        let found = inline
            .or_else(|| self.moved_out.get(id))
            .or_else(|| self.standing.kept_apart(id, self.when.now));
        if found.is_none() && self.record.spilled > 0 {
            self.absent.insert(id.clone());
        }
        found.cloned()
    }
}

#[cfg(test)]
mod tests;
