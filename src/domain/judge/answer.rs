//! Answers, before and after the commit that they belong to.

mod rest;

use std::sync::Arc;
use std::time::Duration;

use super::Fold;
use crate::domain::decision::{
    Advice, Decision, IncidentId, Layer, LiveRound, Rule, Snapshot, Verdict,
};
use crate::domain::ids::{
    EventName, Holder, IdentityName, IdentityValue, Nonce, OperationId, ReservationId, ResourceId,
    StateName,
};
use crate::domain::machine::MachineVersion;
use crate::domain::outcome::StoredResult;
use crate::domain::record::LeaseId;
use crate::domain::request::Ttl;
use crate::domain::together::Company;
use crate::domain::token::{FencingToken, Revision};

/// Whether an answer rests on what can no longer change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// It only tells of finished operations, and may be given from memory.
    Fact,
    /// It could have changed: it must be confirmed in etcd after the question was asked.
    Confirm,
}

/// A token, perhaps of a grant in the commit that is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRef {
    /// Of an earlier grant.
    Known(FencingToken),
    /// Of this commit, in a timeline with this base.
    ThisCommit {
        /// The base.
        base: u64,
    },
}

impl TokenRef {
    fn resolve(self, committed: Option<Revision>) -> FencingToken {
        let resolved = match self {
            Self::Known(token) => Some(token),
            Self::ThisCommit { base } => committed.and_then(|at| FencingToken::of_grant(base, at)),
        };
        resolved.expect("a grant is answered only after its commit, long before tokens reach 2^53")
    }
}

/// The round that an answer speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldRound {
    /// Which.
    pub nonce: Nonce,
    /// Its token.
    pub token: FencingToken,
    /// How long each renewal lasts.
    pub ttl: Ttl,
    /// Its lease.
    pub lease: LeaseId,
    /// Which attempt at its operation it is for. 0: it carries no claim.
    pub attempt: u32,
    /// Whether it is a round of several resources.
    pub several: bool,
}

impl HeldRound {
    /// Its name among callers, if it was asked for of this resource.
    pub fn id(&self, resource: ResourceId) -> ReservationId {
        if self.several {
            ReservationId::of_several(resource, self.nonce)
        } else {
            ReservationId::new(resource, self.nonce)
        }
    }
}

/// What has become of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationState {
    /// Nothing is known of it, or it was given back with nothing done.
    NeverSeen,
    /// Its claim is live.
    Running,
    /// Its claim died without a result.
    Interrupted,
    /// Applied, with a result.
    Done,
    /// Applied; the result is empty.
    DoneEmpty,
    /// Judged and turned away for good.
    Refused,
    /// Nothing is known of it, and it is so old that it may have been done and forgotten.
    Expired,
}

/// A finished answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To whatever is judged, when there is no reservation to give or to end.
    Judged(Decision),
    /// To what ends a round: this one ended now, and its lease holds no key any more.
    Ended(Decision, Nonce, LeaseId),
    /// To Reserve and Renew.
    Held(Decision, HeldRound),
    /// To Lookup.
    Known(OperationState, Option<Decision>),
    /// To Inspect.
    Snapshot(Snapshot),
    /// To a sweep.
    Swept,
}

impl Answer {
    /// The judgement, if somebody asked for one of a message or of a round.
    pub fn judgement(&self) -> Option<&Decision> {
        match self {
            Self::Judged(decision) | Self::Ended(decision, ..) | Self::Held(decision, _) => {
                Some(decision)
            }
            Self::Known(..) | Self::Snapshot(_) | Self::Swept => None,
        }
    }
}

#[derive(Clone, Debug)]
struct DraftSnapshot {
    resource: ResourceId,
    state: Option<StateName>,
    identity: Vec<(IdentityName, IdentityValue)>,
    live: Option<DraftLive>,
    revision: Option<Revision>,
    /// The commit to come changes the record before this was drawn.
    changed: bool,
    machine: Option<MachineVersion>,
    allowed: Arc<[EventName]>,
}

#[derive(Clone, Debug)]
struct DraftLive {
    token: TokenRef,
    holder: Option<Holder>,
    at_most: Duration,
    also: Vec<ResourceId>,
}

#[derive(Clone, Copy, Debug)]
struct DraftRound {
    nonce: Nonce,
    token: TokenRef,
    ttl: Ttl,
    lease: LeaseId,
    attempt: u32,
    several: bool,
}

/// An answer that may depend on a commit that is still to come.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Whether it may be given from memory.
    pub certainty: Certainty,
    decision: Option<Decision>,
    now: Option<DraftSnapshot>,
    held: Option<DraftRound>,
    freed: Option<(Nonce, LeaseId)>,
    known: Option<OperationState>,
    swept: bool,
    repeats: Option<OperationId>,
}

impl Draft {
    /// A judgement by this rule.
    pub(super) fn new(
        verdict: Verdict,
        layer: Layer,
        rule: Rule,
        explanation: impl Into<String>,
    ) -> Self {
        let decision = Decision {
            verdict,
            advice_instead: None,
            event: None,
            layer,
            rule,
            explanation: explanation.into(),
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
        };
        Self {
            certainty: Certainty::Confirm,
            decision: Some(decision),
            now: None,
            held: None,
            freed: None,
            known: None,
            swept: false,
            repeats: None,
        }
    }

    /// The verdict, if it judges.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        self.decision.as_ref().map(|decision| decision.verdict)
    }

    fn amend(mut self, change: impl FnOnce(&mut Decision)) -> Self {
        if let Some(decision) = self.decision.as_mut() {
            change(decision);
        }
        self
    }

    /// The round that this answer ends, and its lease.
    pub(super) fn freeing(mut self, round: Nonce, lease: LeaseId) -> Self {
        self.freed = Some((round, lease));
        self
    }

    /// The sentence so far.
    pub(super) fn explanation(&self) -> &str {
        self.decision
            .as_ref()
            .map_or("", |decision| &decision.explanation)
    }

    pub(super) fn fact(mut self) -> Self {
        self.certainty = Certainty::Fact;
        self
    }

    pub(super) fn of_event(self, event: Option<EventName>) -> Self {
        self.amend(|decision| decision.event = event)
    }

    pub(super) fn advising(self, instead: Option<Advice>) -> Self {
        self.amend(|decision| decision.advice_instead = instead)
    }

    /// Goes on with the sentence.
    pub(super) fn adding(self, more: &str) -> Self {
        self.amend(|decision| {
            decision.explanation.push_str("; ");
            decision.explanation.push_str(more);
        })
    }

    pub(super) fn result(self, result: StoredResult) -> Self {
        self.amend(|decision| decision.result = Some(result))
    }

    pub(super) fn retry_after(self, span: Duration) -> Self {
        self.amend(|decision| decision.retry_after = Some(span))
    }

    pub(super) fn incident(self, incident: Option<IncidentId>) -> Self {
        self.amend(|decision| decision.incident = incident)
    }

    pub(super) fn expected(self, states: &[StateName]) -> Self {
        self.amend(|decision| decision.expected = states.to_vec())
    }

    pub(super) fn differing(self, fields: Vec<String>) -> Self {
        self.amend(|decision| decision.differing = fields)
    }

    pub(super) fn same_content_as(self, earlier: Option<OperationId>) -> Self {
        self.amend(|decision| decision.same_content_as = earlier)
    }

    pub(super) fn deliveries(self, count: u32) -> Self {
        self.amend(|decision| decision.deliveries = Some(count))
    }

    /// Notes that it answers another delivery of a finished operation.
    pub(super) fn repeating(mut self, operation: &OperationId) -> Self {
        self.repeats = Some(operation.clone());
        self
    }

    /// The finished operation of which it answers another delivery.
    pub fn repeats(&self) -> Option<&OperationId> {
        self.repeats.as_ref()
    }

    pub(super) fn first_time(self, time_ms: u64) -> Self {
        self.amend(|decision| decision.first_time_ms = Some(time_ms))
    }

    /// The state of an operation, with what a duplicate would be told.
    pub(super) fn known(state: OperationState, duplicate: Option<Self>) -> Self {
        let certainty = duplicate
            .as_ref()
            .map_or(Certainty::Confirm, |draft| draft.certainty);
        let decision = duplicate.and_then(|draft| draft.decision);
        Self {
            certainty,
            decision,
            now: None,
            held: None,
            freed: None,
            known: Some(state),
            swept: false,
            repeats: None,
        }
    }

    /// The answer to a sweep.
    pub(super) fn swept() -> Self {
        Self {
            certainty: Certainty::Confirm,
            decision: None,
            now: None,
            held: None,
            freed: None,
            known: None,
            swept: true,
            repeats: None,
        }
    }

    /// Gives the answer; `committed` is the revision of the commit it belongs to, if there was one.
    pub fn finish(self, committed: Option<Revision>) -> Answer {
        let now = self.now.map(|draft| Snapshot {
            resource: draft.resource,
            state: draft.state,
            identity: draft.identity,
            live: draft.live.map(|live| LiveRound {
                token: live.token.resolve(committed),
                holder: live.holder,
                at_most: live.at_most,
                also: live.also,
            }),
            revision: if draft.changed {
                committed
            } else {
                draft.revision
            },
            machine: draft.machine,
            allowed: draft.allowed,
        });
        let decision = self.decision.map(|mut decision| {
            decision.now.clone_from(&now);
            decision
        });
        let held = self.held.map(|held| HeldRound {
            nonce: held.nonce,
            token: held.token.resolve(committed),
            ttl: held.ttl,
            lease: held.lease,
            attempt: held.attempt,
            several: held.several,
        });
        if self.swept {
            return Answer::Swept;
        }
        match (self.known, decision, held, now) {
            (Some(state), decision, _, _) => Answer::Known(state, decision),
            (None, Some(decision), Some(held), _) => Answer::Held(decision, held),
            (None, Some(decision), None, _) => match self.freed {
                Some((round, lease)) => Answer::Ended(decision, round, lease),
                None => Answer::Judged(decision),
            },
            (None, None, _, Some(now)) => Answer::Snapshot(now),
            (None, None, _, None) => {
                unreachable!("a draft is a judgement, an operation's state or a snapshot")
            }
        }
    }
}

impl Fold<'_> {
    /// Adds the resource as it stands now.
    pub(super) fn showing(&self, mut draft: Draft) -> Draft {
        draft.now = Some(self.snapshot());
        draft
    }

    /// Adds the live round to an answer for its holder.
    pub(super) fn holding(&self, mut draft: Draft) -> Draft {
        draft.held = self.live_round().map(|(round, token)| DraftRound {
            nonce: round.nonce,
            token,
            ttl: round.ttl,
            lease: round.lease,
            attempt: self.attempt_under(round.nonce),
            several: round.company != Company::Alone,
        });
        draft
    }

    /// The answer to Inspect.
    pub(super) fn bare_snapshot(&self, allowed: Arc<[EventName]>) -> Draft {
        Draft {
            certainty: Certainty::Confirm,
            decision: None,
            now: Some(DraftSnapshot {
                allowed,
                ..self.snapshot()
            }),
            held: None,
            freed: None,
            known: None,
            swept: false,
            repeats: None,
        }
    }

    fn snapshot(&self) -> DraftSnapshot {
        let identity = self.record.identity.iter();
        DraftSnapshot {
            resource: self.resource.clone(),
            state: self.record.state.clone(),
            identity: identity
                .filter_map(|(name, value)| Some((name.clone(), value.current.clone()?)))
                .collect(),
            live: self.live_round().map(|(round, token)| DraftLive {
                token,
                holder: round.holder.clone(),
                at_most: Duration::from_secs(round.ttl.lease_seconds().into()),
                also: round.company.told(),
            }),
            revision: self.revision,
            changed: self.changed || self.settles,
            machine: self.record.machine,
            allowed: Arc::default(),
        }
    }
}
