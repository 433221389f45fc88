//! The law of a request: what its kind is judged by, and what that makes of it.
//!
//! Everything that judges a move asks the [`Terms`]: they are the same whether the request itself says from where to where
//! or an event of a machine does.

use std::borrow::Cow;
use std::sync::Arc;

use super::Fold;
use crate::domain::decision::{Advice, Verdict};
use crate::domain::digest::{Content, ContentDigest, DigestScheme};
use crate::domain::ids::{EventName, IdentityName, IdentityValue, StateName};
use crate::domain::machine::{
    DigestRule, EventInForce, InForce, MachineVersion, OnRefusal, Origin, OtherRound, SecondKey,
    Starts, WhileHeld,
};
use crate::domain::record::Record;
use crate::domain::request::{Intent, Interrupted, Move, Transition};
use crate::domain::retention::Keeping;

/// What the resources of a kind are judged by.
#[derive(Clone, Debug, Default)]
pub enum Law {
    /// No machine is in force: each request says itself from where to where.
    #[default]
    NoFile,
    /// This machine is in force.
    Machine(Arc<InForce>),
    /// One is in force that this sidecar cannot read, and why.
    Unreadable(Arc<str>),
}

impl Law {
    /// The version in force.
    pub fn version(&self) -> Option<MachineVersion> {
        match self {
            Self::Machine(machine) => Some(machine.version()),
            Self::NoFile | Self::Unreadable(_) => None,
        }
    }

    /// How long what is kept of a resource; `configured`: without a machine.
    pub fn keeping(&self, configured: Keeping, record: &Record) -> Keeping {
        match self {
            Self::Machine(machine) => {
                let state = record.state.as_ref();
                let state = state.map(|state| machine.successor(record.machine, state));
                machine.keeping(configured, state)
            }
            Self::NoFile | Self::Unreadable(_) => configured,
        }
    }

    /// The events that a state allows, as far as a machine says.
    pub(super) fn allowed_events(&self, state: Option<&StateName>) -> Arc<[EventName]> {
        match self {
            Self::Machine(machine) => machine.allowed_events(state),
            Self::NoFile | Self::Unreadable(_) => Arc::default(),
        }
    }
}

/// Why a request cannot be judged by the law in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unlawful {
    /// A field can never work as sent.
    Field {
        /// Path of the field.
        field: String,
        /// Completes the sentence.
        reason: String,
    },
    /// An event was named, and the kind has no machine.
    NoMachine,
    /// The machine has no such event.
    NoEvent {
        /// The one that was named.
        event: EventName,
        /// The version that does not have it.
        version: MachineVersion,
    },
    /// The content was read under another rule than the one that counts, and was not kept.
    Unread,
    /// Record and law do not belong together, or the law cannot be read.
    Mismatch(String),
}

impl Unlawful {
    pub(super) fn field(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Field {
            field: field.into(),
            reason: reason.into(),
        }
    }
}

/// A request with its content read under a rule: digests that were made under different rules are never compared.
pub(super) fn read_under<'t>(
    ask: &'t Transition,
    rule: &DigestRule,
) -> Result<Cow<'t, Transition>, Unlawful> {
    let intent = &ask.intent;
    if intent.beside.is_under(&intent.digest, rule) {
        return Ok(Cow::Borrowed(ask));
    }
    let sent = intent.beside.sent().ok_or(Unlawful::Unread)?;
    let content = Content::read(sent.given(), rule)
        .map_err(|invalid| Unlawful::field(sent.field(), invalid.to_string()))?;
    let mut again = ask.clone();
    again.intent.digest = content.digest;
    again.intent.beside = content.beside;
    Ok(Cow::Owned(again))
}

pub(super) type Named<'t> = (&'t IdentityName, &'t IdentityValue);

/// What the law makes of one request.
#[derive(Clone, Debug)]
pub(super) struct Terms<'t> {
    /// The event and where it may start, if a machine judges.
    pub(super) event: Option<(EventInForce<'t>, Starts)>,
    /// Without a machine: where it may start; empty: anywhere.
    pub(super) from: &'t [StateName],
    /// Whether a state is judged at all; else it runs once.
    pub(super) moves: bool,
    /// Where it leads; `None`: the state stays.
    pub(super) to: Option<&'t StateName>,
    /// The state that a resource without one is taken to be in.
    pub(super) initial: Option<&'t StateName>,
    /// Identity values that must match.
    pub(super) compare: Vec<Named<'t>>,
    /// Identity values that begin.
    pub(super) sets: Vec<Named<'t>>,
    /// Identity values that end.
    pub(super) clears: Vec<&'t IdentityName>,
}

impl<'t> Terms<'t> {
    pub(super) fn without_machine(intent: &'t Intent) -> Self {
        let movement = intent.movement.as_ref();
        Self {
            event: None,
            from: &intent.from,
            moves: movement.is_some(),
            to: movement.and_then(|movement| movement.to.as_ref()),
            initial: movement.and_then(|movement| movement.initial.as_ref()),
            compare: intent.identity.iter().collect(),
            sets: movement.map_or_else(Vec::new, |movement: &Move| movement.sets.iter().collect()),
            clears: Vec::new(),
        }
    }

    fn by_machine(law: &'t InForce, intent: &'t Intent) -> Result<Self, Unlawful> {
        let kind = &law.machine().definition().kind.value;
        let version = law.version();
        if intent.movement.is_some() {
            return Err(Unlawful::field(
                "intent.move",
                format!(
                    "must be absent: resources of kind {kind} follow a machine (version {version}), whose event says \
                     where it leads; name the event"
                ),
            ));
        }
        if intent.interrupted == Interrupted::Rerun {
            return Err(Unlawful::field(
                "intent.rerun_if_interrupted",
                format!(
                    "must be false: resources of kind {kind} follow a machine (version {version}), whose event says what \
                     becomes of it when it is interrupted"
                ),
            ));
        }
        let Some(name) = &intent.event else {
            return Err(Unlawful::field(
                "intent.event",
                format!(
                    "is required: resources of kind {kind} follow a machine (version {version})"
                ),
            ));
        };
        let event = law.event(name).ok_or_else(|| Unlawful::NoEvent {
            event: name.clone(),
            version,
        })?;
        let said = event.event;
        for (does, names) in [("matches", &said.matches), ("sets", &said.sets)] {
            let missing = names
                .iter()
                .find(|needed| !intent.identity.contains_key(&needed.value));
            if let Some(missing) = missing {
                let missing = &missing.value;
                let reason = format!("lacks {missing}, which event {name} of kind {kind} {does}");
                return Err(Unlawful::field("intent.identity", reason));
            }
        }
        let sets = |name: &IdentityName| said.sets.iter().any(|set| set.value == *name);
        if let Some(unknown) = intent.identity.keys().find(|name| !law.knows(name)) {
            return Err(Unlawful::field(
                format!("intent.identity[\"{unknown}\"]"),
                format!("is a name that no event of kind {kind} (version {version}) sets"),
            ));
        }
        let none = intent.digest.scheme() == DigestScheme::None;
        if none && said.digest != DigestRule::None {
            return Err(Unlawful::field(
                "intent.content",
                "is required: json, raw or digest; an empty raw means that the message has none",
            ));
        }
        let (sets, compare) = intent.identity.iter().partition(|(name, _)| sets(name));
        let starts = event.starts(&intent.from);
        if !intent.from.is_empty() && starts.is_empty() {
            return Err(Unlawful::field(
                "intent.from_states",
                format!("has none of the states from which event {name} of kind {kind} may start"),
            ));
        }
        Ok(Self {
            event: Some((event, starts)),
            from: &[],
            moves: true,
            to: said.to().map(|to| &to.value),
            initial: None,
            compare,
            sets,
            clears: said.clears.iter().map(|name| &name.value).collect(),
        })
    }

    /// Whether it may change the state or the identity of its resource, so that no two such may be under way at once.
    pub(super) fn changes(&self) -> bool {
        self.to.is_some()
            || self.initial.is_some()
            || !self.sets.is_empty()
            || !self.clears.is_empty()
    }

    /// The states from which it could have started.
    pub(super) fn expected(&self) -> Vec<StateName> {
        match &self.event {
            Some((event, starts)) => event.names(*starts).cloned().collect(),
            None => self.from.to_vec(),
        }
    }

    /// What of the content counts.
    pub(super) fn digest_rule(&self) -> &'t DigestRule {
        self.event
            .map_or(&DigestRule::Whole, |(event, _)| &event.event.digest)
    }

    /// What tells the same content from another.
    pub(super) fn digest(&self, intent: &Intent) -> ContentDigest {
        match self.event {
            Some((event, _)) if event.event.digest == DigestRule::None => ContentDigest::none(),
            Some(_) | None => intent.digest.clone(),
        }
    }

    /// The event as the machine in force calls it.
    pub(super) fn event_name(&self) -> Option<&'t EventName> {
        self.event.map(|(event, _)| &event.event.name.value)
    }

    /// Whether it may happen while somebody else holds the resource.
    pub(super) fn passes_holders(&self) -> bool {
        let said = self.event.map(|(event, _)| event.event.while_held.value);
        said == Some(WhileHeld::Allow)
    }

    /// Whether its sender, refused, would send again for ever.
    pub(super) fn keeps_retrying(&self) -> bool {
        let upstream = self
            .event
            .and_then(|(event, _)| event.event.upstream.as_ref());
        upstream.is_some_and(|upstream| upstream.on_refusal == OnRefusal::KeepsRetrying)
    }

    /// What is advised instead of coming again, while another holds the resource: a person does not wait.
    pub(super) fn advice_if_held(&self) -> Option<Advice> {
        let origin = self.event.map(|(event, _)| event.event.origin);
        (origin == Some(Origin::User)).then_some(Advice::Refuse)
    }

    /// Whether a person must learn of a "no".
    pub(super) fn alerts(&self, verdict: Verdict) -> bool {
        let said = self.event.map(|(event, _)| event.event);
        match verdict {
            Verdict::Superseded => said.is_none_or(|event| {
                event.second_key == SecondKey::Incident && event.origin != Origin::Timer
            }),
            Verdict::OtherRound => {
                said.is_some_and(|event| event.other_round == OtherRound::Incident)
            }
            // A person sees the answer, and a timer's message is void.
            Verdict::Rejected => {
                said.is_none_or(|event| !matches!(event.origin, Origin::User | Origin::Timer))
            }
            Verdict::Granted
            | Verdict::Applied
            | Verdict::Replayed
            | Verdict::Busy
            | Verdict::Conflict
            | Verdict::TooEarly
            | Verdict::Expired
            | Verdict::InProgress
            | Verdict::Interrupted
            | Verdict::Fenced => false,
        }
    }
}

impl<'a> Fold<'a> {
    /// Judges by this law; without it, there is no machine.
    #[must_use]
    pub fn under(mut self, law: &'a Law) -> Self {
        self.law = law;
        self.when.keeping = law.keeping(self.when.keeping, &self.record);
        self
    }

    /// Whether anything was judged by the law: then what comes of the fold holds only as long as the law is in force.
    pub fn lawful(&self) -> bool {
        self.lawful
    }

    /// What the law makes of a request.
    pub(super) fn terms<'t>(&mut self, intent: &'t Intent) -> Result<Terms<'t>, Unlawful>
    where
        'a: 't,
    {
        self.follow()?;
        let law: &'a Law = self.law;
        match law {
            Law::Machine(machine) => Terms::by_machine(machine, intent),
            Law::NoFile | Law::Unreadable(_) if intent.event.is_some() => Err(Unlawful::NoMachine),
            Law::NoFile | Law::Unreadable(_) => Ok(Terms::without_machine(intent)),
        }
    }

    /// What of the content counted when an operation was judged.
    pub(super) fn rule_then(
        &mut self,
        judged: Option<(&EventName, MachineVersion)>,
    ) -> Result<&'a DigestRule, Unlawful> {
        let Some((event, version)) = judged else {
            return Ok(&DigestRule::Whole);
        };
        let law: &'a Law = self.law;
        if let Law::Machine(machine) = law
            && let Some(rule) = machine.digest_then(event, version)
        {
            return Ok(rule);
        }
        self.follow()?;
        Err(Unlawful::Mismatch(format!(
            "the operation was judged as event {event} of version {version} of its machine, which the one in force does not \
             follow: apply version {version} or a higher one again"
        )))
    }

    /// Brings the record to the version in force. It is written only with the next change.
    pub(super) fn follow(&mut self) -> Result<(), Unlawful> {
        self.lawful = true;
        match self.law {
            Law::Machine(machine) => self.record.follow(machine),
            Law::Unreadable(why) => Err(Unlawful::Mismatch(format!(
                "the machine in force cannot be read by this sidecar ({why}): upgrade it, or apply a higher version that \
                 it can read"
            ))),
            Law::NoFile => match self.record.machine {
                None => Ok(()),
                Some(version) => Err(Unlawful::Mismatch(format!(
                    "the resource was judged by version {version} of a machine, and none is in force for its kind: apply \
                     version {version} or a higher one again"
                ))),
            },
        }
    }
}
