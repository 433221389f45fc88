//! The answer of every call that judges.

use std::sync::Arc;
use std::time::Duration;

use super::ids::{
    EventName, Holder, IdentityName, IdentityValue, OperationId, ReservationId, ResourceId,
    StateName,
};
use super::machine::MachineVersion;
use super::outcome::StoredResult;
use super::request::Ttl;
use super::token::{FencingToken, Revision};

/// What the caller should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Advice {
    /// Run the effect.
    Proceed,
    /// Settled.
    Acknowledge,
    /// Not now.
    Retry,
    /// No.
    Refuse,
    /// Stop.
    Abandon,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Reserved, renewed, or the token is good.
    Granted,
    /// Committed now.
    Applied,
    /// Done before.
    Replayed,
    /// Another request's claim of the operation is live.
    InProgress,
    /// Another round holds the resource.
    Busy,
    /// A claim died without a result, and a person decides.
    Interrupted,
    /// Same operation, other content.
    Conflict,
    /// This move was made already.
    Superseded,
    /// The message's round is known to be replaced.
    OtherRound,
    /// Not allowed yet.
    TooEarly,
    /// Contradicts the state.
    Rejected,
    /// The round is over, or the token overtaken.
    Fenced,
    /// Older than the retention: it may have been done and forgotten, so it never runs.
    Expired,
}

impl Verdict {
    /// What a caller should do about it.
    pub fn advice(self) -> Advice {
        match self {
            Self::Granted => Advice::Proceed,
            Self::Applied | Self::Replayed | Self::Superseded | Self::OtherRound => {
                Advice::Acknowledge
            }
            Self::InProgress | Self::Busy | Self::Interrupted | Self::TooEarly => Advice::Retry,
            Self::Conflict | Self::Rejected | Self::Expired => Advice::Refuse,
            Self::Fenced => Advice::Abandon,
        }
    }
}

/// Which layer decided, in the order in which they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// Which operation is this?
    Key,
    /// Does it say the same?
    Digest,
    /// Was it done?
    Replay,
    /// Does the round hold?
    Fence,
    /// Is it this round's?
    Identity,
    /// Does the state allow it?
    State,
    /// Nothing objected.
    Result,
}

/// The exact reason. The name on the wire is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The move was made.
    Moved,
    /// A run-once operation was recorded.
    RanOnce,
    /// The same operation with the same content was done before.
    SameContent,
    /// The same operation, finished by the same round, with another result this time.
    OtherResult,
    /// The same operation, finished by the same round, as another event this time.
    OtherOutcome,
    /// The same operation with other content.
    OtherContent,
    /// The resource was free.
    WasFree,
    /// The same request had been granted.
    SameRequest,
    /// The round was renewed.
    Renewed,
    /// The round was ended now.
    Ended,
    /// The round was ended by its holder before.
    Released,
    /// The round's time ran out.
    Lost,
    /// The round is over, too long ago to say how.
    Over,
    /// Another round holds the resource.
    Held,
    /// The resource is free, but others wait for it and come first.
    Queued,
    /// The token is that of the live grant.
    Live,
    /// The token is that of the last grant, which is over; accepted as asked.
    LastGranted,
    /// A later grant exists.
    Overtaken,
    /// The grant is over.
    TokenEnded,
    /// No such token was granted.
    NeverIssued,
    /// The token was issued before the store was restored.
    OlderTimeline,
    /// The operation was finished without this round, which is over.
    DoneWithoutRound,
    /// An identity value is known to be replaced.
    Replaced,
    /// An identity value is not (yet) known.
    NotYetKnown,
    /// The state was reached by this very move.
    AlreadyMoved,
    /// None of the states it may start from was reached yet.
    NotYetReached,
    /// The states it may start from have passed.
    Passed,
    /// The resource has no state yet.
    NoState,
    /// The message is older than what is remembered.
    TooOld,
    /// The resource was forgotten, and must not come back.
    Forgotten,
    /// No state that allows the event can come any more.
    CannotCome,
    /// The machine's file says what becomes of the event in this state.
    AsSaid,
    /// An identity value was never in force, and can no longer come into force.
    NeverKnown,
    /// The same operation as another event.
    OtherEvent,
    /// The operation was claimed: its effect may run.
    Claimed,
    /// Another request's claim of the operation is live.
    Running,
    /// Another operation is claimed, and comes first.
    ClaimOpen,
    /// The claim ended without a result, and a person decides.
    ClaimDied,
    /// The claim ended without a result; the operation may run again under a claim.
    NeedsClaim,
    /// Another operation was interrupted, and comes first.
    OtherInterrupted,
    /// A person resolved the operation now.
    Resolved,
    /// A person had it refused: it must never be run.
    Voided,
    /// The operation was finished before a person resolved it.
    Finished,
    /// There is no such operation that was claimed.
    NeverClaimed,
    /// It is another attempt than the person looked into.
    OtherAttempt,
}

/// Writes each stable name once, for both directions; a rule without a name does not compile.
macro_rules! rule_names {
    ($($rule:ident => $name:literal,)*) => {
        impl Rule {
            /// The stable name.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)*
                }
            }

            /// The rule of that name, if there is one.
            pub fn parse(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$rule),)*
                    _ => None,
                }
            }
        }
    };
}

rule_names! {
    Moved => "MOVED",
    RanOnce => "RAN_ONCE",
    SameContent => "SAME_CONTENT",
    OtherResult => "OTHER_RESULT",
    OtherOutcome => "OTHER_OUTCOME",
    OtherContent => "OTHER_CONTENT",
    WasFree => "WAS_FREE",
    SameRequest => "SAME_REQUEST",
    Renewed => "RENEWED",
    Ended => "ENDED_NOW",
    Released => "RELEASED",
    Lost => "LOST",
    Over => "OVER",
    Held => "HELD",
    Queued => "QUEUED",
    Live => "LIVE",
    LastGranted => "LAST_GRANTED",
    Overtaken => "OVERTAKEN",
    TokenEnded => "ENDED",
    NeverIssued => "NEVER_ISSUED",
    OlderTimeline => "OLDER_TIMELINE",
    DoneWithoutRound => "DONE_WITHOUT_ROUND",
    Replaced => "REPLACED",
    NotYetKnown => "NOT_YET_KNOWN",
    AlreadyMoved => "ALREADY_MOVED",
    NotYetReached => "NOT_YET_REACHED",
    Passed => "PASSED",
    NoState => "NO_STATE",
    TooOld => "TOO_OLD",
    Forgotten => "FORGOTTEN",
    CannotCome => "CANNOT_COME",
    AsSaid => "AS_SAID",
    NeverKnown => "NEVER_KNOWN",
    OtherEvent => "OTHER_EVENT",
    Claimed => "CLAIMED",
    Running => "RUNNING",
    ClaimOpen => "CLAIM_OPEN",
    ClaimDied => "CLAIM_DIED",
    NeedsClaim => "NEEDS_CLAIM",
    OtherInterrupted => "OTHER_INTERRUPTED",
    Resolved => "RESOLVED",
    Voided => "VOIDED",
    Finished => "FINISHED",
    NeverClaimed => "NEVER_CLAIMED",
    OtherAttempt => "OTHER_ATTEMPT",
}

/// Names an incident; the same finding always has the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IncidentId(pub String);

/// A judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What was found; the advice follows from it,
    pub verdict: Verdict,
    /// unless the machine knows better what its sender makes of an answer.
    pub advice_instead: Option<Advice>,
    /// The event that was judged, where the request does not say it: the completing of a claim by its round alone.
    pub event: Option<EventName>,
    /// Who decided.
    pub layer: Layer,
    /// Why, exactly.
    pub rule: Rule,
    /// One sentence without values.
    pub explanation: String,
    /// The first result.
    pub result: Option<StoredResult>,
    /// When asking again can help.
    pub retry_after: Option<Duration>,
    /// A person was alerted.
    pub incident: Option<IncidentId>,
    /// The resource then.
    pub now: Option<Snapshot>,
    /// Where the move could have started.
    pub expected: Vec<StateName>,
    /// JSON Pointers to the fields that differ from those of the first content.
    pub differing: Vec<String>,
    /// With APPLIED, or GRANTED to a claim: another operation on this resource did the same with the same content, so the key may be too narrow.
    pub same_content_as: Option<OperationId>,
    /// In a repeated answer: when it was first decided, in milliseconds since 1970.
    pub first_time_ms: Option<u64>,
    /// In a repeated answer: how often the operation was delivered, as far as that is known here.
    pub deliveries: Option<u32>,
    /// Whether the request brought a result that was refused and not kept, for its incident is full.
    pub result_unkept: bool,
    /// Whether it was only asked for: all of this would be, and nothing was written.
    pub only_asked: bool,
    /// In a repeated answer: who resolved the operation, how and why.
    pub resolution: Option<String>,
}

impl Decision {
    /// What the caller should do.
    pub fn advice(&self) -> Advice {
        self.advice_instead.unwrap_or_else(|| self.verdict.advice())
    }
}

/// A resource at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Which.
    pub resource: ResourceId,
    /// Its state, if it has one.
    pub state: Option<StateName>,
    /// Identity values in force.
    pub identity: Vec<(IdentityName, IdentityValue)>,
    /// The live reservation.
    pub live: Option<LiveRound>,
    /// Last change; `None`: never written.
    pub revision: Option<Revision>,
    /// The version of the machine whose names this speaks in, if there is one.
    pub machine: Option<MachineVersion>,
    /// The events that the state allows. Told to those who ask for nothing else; else empty.
    pub allowed: Arc<[EventName]>,
}

/// A live reservation as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRound {
    /// Its token.
    pub token: FencingToken,
    /// Who holds it.
    pub holder: Option<Holder>,
    /// At most how long, unless renewed.
    pub at_most: Duration,
    /// Other resources that it holds: all of them, in order, if this one names the round; else the one that does.
    pub also: Vec<ResourceId>,
}

/// A reservation as its holder gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Names the round.
    pub id: ReservationId,
    /// The token.
    pub token: FencingToken,
    /// How long each renewal lasts.
    pub ttl: Ttl,
    /// How long it is certain, from the caller's own clock as read before the call.
    pub safe_for: Duration,
    /// Which attempt at its operation it is for. 0: it carries no claim.
    pub attempt: u32,
}
