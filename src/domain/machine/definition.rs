//! What a machine file says, as values that cannot be out of their limits.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use super::facts;
use super::place::{At, Place};
use crate::domain::ids::{EventName, IdentityName, Kind, StateName};
use crate::domain::record::{IDENTITY_NAMES_REMEMBERED_MAX, STATES_REMEMBERED_MAX};
use crate::domain::request::{IDENTITY_NAMES_MAX, TTL_SECONDS_MAX, TTL_SECONDS_MIN};
use crate::domain::retention::{RETENTION_MAX, RETENTION_MIN};

/// Most states of a machine.
pub const STATES_MAX: usize = 64;
/// Most events of a machine.
pub const EVENTS_MAX: usize = 512;
/// Largest machine file, in bytes.
pub const FILE_BYTES_MAX: usize = 256 * 1024;
/// Most names that one event matches and sets: what one message may carry.
pub const EVENT_IDENTITY_NAMES_MAX: usize = IDENTITY_NAMES_MAX;
/// Most identity names of a machine: what a record remembers.
pub const MACHINE_IDENTITY_NAMES_MAX: usize = IDENTITY_NAMES_REMEMBERED_MAX;
/// Most items of one list: states, identity names or JSON Pointers.
pub const LIST_ITEMS_MAX: usize = 64;
/// Longest JSON Pointer, in bytes.
pub const POINTER_BYTES_MAX: usize = 256;
/// Shortest and longest retention and time until a resource is forgotten: as without a machine.
pub const RETENTION: (Duration, Duration) = (RETENTION_MIN, RETENTION_MAX);
/// Shortest and longest retry window of a sender.
pub const RETRY_WINDOW: (Duration, Duration) = (
    Duration::from_secs(1),
    Duration::from_secs(10 * 366 * 24 * 60 * 60),
);
/// Shortest and longest claim: those of any reservation.
pub const CLAIM_SECONDS: (u32, u32) = (TTL_SECONDS_MIN, TTL_SECONDS_MAX);

// An event may be allowed in every state.
const _: () = assert!(STATES_MAX <= LIST_ITEMS_MAX);
// A record must be able to remember every state of its machine.
const _: () = assert!(STATES_MAX <= STATES_REMEMBERED_MAX);

/// The version of a machine. Only a higher one may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineVersion(NonZeroU32);

impl MachineVersion {
    /// The highest there is: it is an int32 where callers read it.
    pub const MAX: u32 = i32::MAX.unsigned_abs();

    /// `None`: versions count from 1, up to [`Self::MAX`].
    pub fn new(number: u32) -> Option<Self> {
        let number = NonZeroU32::new(number)?;
        (number.get() <= Self::MAX).then_some(Self(number))
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for MachineVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A machine file, read. Whether it makes sense as a whole is lint's to say.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The kind of the resources that follow it.
    pub kind: At<Kind>,
    /// Its version.
    pub version: At<MachineVersion>,
    /// How long an operation is replayed.
    pub retention: At<Duration>,
    /// How long a resource in a final state keeps its record; `None`: for good.
    pub forget: Option<At<Duration>>,
    /// The states, in the order of the file.
    pub states: Vec<State>,
    /// Where the states are listed.
    pub states_place: Place,
    /// The events, in the order of the file.
    pub events: Vec<Event>,
    /// Where the events are listed.
    pub events_place: Place,
    /// What became of names that earlier versions had.
    pub map: Successors,
}

/// A state.
#[derive(Clone, Debug)]
pub struct State {
    /// Its name.
    pub name: At<StateName>,
    /// Nothing leaves it.
    pub is_final: bool,
}

/// What became of the names that this version no longer has.
#[derive(Clone, Debug, Default)]
pub struct Successors {
    /// Each dropped state, and the state that its resources are in now.
    pub states: Vec<(At<StateName>, At<StateName>)>,
    /// Each dropped event, and the one that stands for it now; `None`: none does.
    pub events: Vec<(At<EventName>, Option<At<EventName>>)>,
}

/// An event.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its name.
    pub name: At<EventName>,
    /// What it does to the state.
    pub effect: Effect,
    /// Identity values that the message must name as they stand.
    pub matches: Vec<At<IdentityName>>,
    /// Identity values that begin a round.
    pub sets: Vec<At<IdentityName>>,
    /// Identity values that end.
    pub clears: Vec<At<IdentityName>>,
    /// What of the content tells the same message from another.
    pub digest: DigestRule,
    /// What happens to a claim that died without a result.
    pub interrupted: At<Interrupted>,
    /// Dispositions that are said instead of derived.
    pub otherwise: Vec<(At<StateName>, Otherwise)>,
    /// Where its messages come from.
    pub origin: Origin,
    /// Whether it may happen while somebody holds the resource.
    pub while_held: At<WhileHeld>,
    /// What its sender does.
    pub upstream: Option<Upstream>,
    /// The same move under another operation.
    pub second_key: SecondKey,
    /// A message of a round that is known to be over.
    pub other_round: OtherRound,
    /// How long a claim lasts if the call does not say; `None`: as any reservation.
    pub claim: Option<Duration>,
}

/// What an event does to the state.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Creates the resource, in this state.
    Creates(At<StateName>),
    /// Moves it.
    Moves {
        /// Where it may start.
        from: Vec<At<StateName>>,
        /// Where it ends.
        to: At<StateName>,
    },
    /// Happens in a state and leaves it as it is.
    Stays {
        /// Where it may happen.
        from: Vec<At<StateName>>,
    },
}

impl Event {
    /// The states in which it is allowed; none if it creates.
    pub fn from(&self) -> &[At<StateName>] {
        match &self.effect {
            Effect::Creates(_) => &[],
            Effect::Moves { from, .. } | Effect::Stays { from } => from,
        }
    }

    /// The state that it leads to, if it moves or creates.
    pub fn to(&self) -> Option<&At<StateName>> {
        match &self.effect {
            Effect::Creates(to) | Effect::Moves { to, .. } => Some(to),
            Effect::Stays { .. } => None,
        }
    }

    /// Each thing that the file says of it, as key and value; what holds unsaid is left out.
    pub fn said(&self) -> Vec<(String, String)> {
        facts::of_event(self)
    }
}

/// What of the content tells the same message from another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DigestRule {
    /// All of it.
    #[default]
    Whole,
    /// Only what these JSON Pointers name.
    Include(Vec<String>),
    /// All but what these JSON Pointers name.
    Exclude(Vec<String>),
    /// The event carries no content.
    None,
}

/// Words that a key may have as its value.
pub trait Words: Copy + PartialEq + 'static {
    /// Each word and what it stands for; the first is the default.
    const WORDS: &'static [(&'static str, Self)];

    /// The word for a value.
    fn word(self) -> &'static str {
        let mut words = Self::WORDS.iter();
        words
            .find(|(_, value)| *value == self)
            .map_or("", |(word, _)| word)
    }

    /// What holds if the file says nothing.
    fn unsaid() -> Self {
        Self::WORDS[0].1
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$each])* $variant,)* }

        impl Words for $name {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$variant),)*];
        }
    };
}

words! {
    /// What happens to a claim that died without a result.
    Interrupted {
        /// A person decides; other moving events wait.
        Ask = "ask",
        /// It may be run again.
        Rerun = "rerun",
        /// A task decides.
        Defer = "defer",
    }
}
words! {
    /// Where messages come from, which says what a refusal means.
    Origin {
        /// A system outside: a contradiction is for a person to see.
        Callback = "callback",
        /// A message queue.
        Queue = "queue",
        /// A timer: a contradiction is void.
        Timer = "timer",
        /// A person who is told at once.
        User = "user",
    }
}
words! {
    /// Whether an event may happen while somebody holds the resource.
    WhileHeld {
        /// It is told to come again.
        Busy = "busy",
        /// It may.
        Allow = "allow",
    }
}
words! {
    /// The same move under another operation.
    SecondKey {
        /// A second real one, such as a second payment: for a person to see.
        Incident = "incident",
        /// The sender uses several keys for one action.
        Same = "same",
    }
}
words! {
    /// A message of a round that is known to be over.
    OtherRound {
        /// Acknowledged, and nothing more.
        Acknowledge = "acknowledge",
        /// Acknowledged, and for a person to see.
        Incident = "incident",
    }
}
words! {
    /// A disposition that is said instead of derived.
    Otherwise {
        /// REJECTED.
        Reject = "reject",
        /// SUPERSEDED.
        Supersede = "supersede",
        /// TOO_EARLY.
        TooEarly = "too_early",
    }
}
words! {
    /// What a receipt means to the sender.
    Receipt {
        /// The message has arrived.
        Received = "received",
        /// What it asks for is done.
        Done = "done",
    }
}
words! {
    /// What the sender does when it is refused.
    OnRefusal {
        /// It stops.
        Stops = "stops",
        /// It sends again.
        KeepsRetrying = "keeps_retrying",
    }
}

/// What the sender of an event does.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Where it was written.
    pub place: Place,
    /// The JSON Pointer to what names the operation.
    pub key: Option<String>,
    /// What a receipt means to it.
    pub receipt: Receipt,
    /// How long it sends again.
    pub retry_window: Option<At<Duration>>,
    /// What it does when it is refused.
    pub on_refusal: OnRefusal,
}
