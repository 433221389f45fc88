//! Requests, with what a test does not care about filled in.

use std::time::Duration;

use bytes::Bytes;
use fencepost::domain::claim::Finding;
use fencepost::domain::digest::{Beside, Content, ContentDigest, Given, Sent};
use fencepost::domain::ids::{
    EventName, Holder, IdentityName, IdentityValue, Kind, OperationId, Reason, RequestId,
    ReservationId, ResourceId, StateName,
};
use fencepost::domain::machine::DigestRule;
use fencepost::domain::outcome::StoredResult;
use fencepost::domain::request::{
    Afterwards, Intent, Interrupted, Move, Purpose, Reserve, Resolve, Running, Transition, Ttl,
};
use fencepost::domain::together::{ReserveTogether, Together};
use uuid::Uuid;

/// A resource by kind and id.
pub(crate) fn resource_of(kind: &str, id: &str) -> ResourceId {
    let kind = Kind::parse(kind).expect("a kind");
    ResourceId::new(kind, id).expect("an id")
}

/// An order.
pub(crate) fn resource(id: &str) -> ResourceId {
    resource_of("order", id)
}

/// An order that no other test knows, whose id stands in its keys as it is.
pub(crate) fn fresh_resource() -> ResourceId {
    resource(&Uuid::new_v4().simple().to_string())
}

/// A fresh attempt to reserve, with the default TTL.
pub(crate) fn reserve(resource: &ResourceId) -> Reserve {
    Reserve {
        resource: resource.clone(),
        request: fresh_request(),
        ttl: Ttl::parse(None).expect("there is a default"),
        holder: Some(Holder::parse("worker").expect("a name")),
        intent: None,
    }
}

/// A fresh attempt to reserve all of these, with the default TTL.
pub(crate) fn together(resources: &[ResourceId]) -> ReserveTogether {
    let (first, others) = resources.split_first().expect("resources");
    ReserveTogether {
        together: Together::new(first.clone(), others.to_vec()).expect("several resources"),
        request: fresh_request(),
        ttl: Ttl::parse(None).expect("there is a default"),
        holder: Some(Holder::parse("worker").expect("a name")),
    }
}

/// So many orders that no other test knows, in the order of resources.
pub(crate) fn fresh_resources<const N: usize>() -> [ResourceId; N] {
    let mut fresh: [_; N] = std::array::from_fn(|_| fresh_resource());
    fresh.sort();
    fresh
}

/// The same, for so many seconds.
pub(crate) fn reserve_for(resource: &ResourceId, seconds: u32) -> Reserve {
    let ttl = Duration::from_secs(seconds.into());
    Reserve {
        ttl: Ttl::parse(Some(ttl)).expect("a TTL"),
        ..reserve(resource)
    }
}

/// A request id that was never used.
pub(crate) fn fresh_request() -> RequestId {
    RequestId::parse(&Uuid::new_v4().to_string()).expect("a random UUID")
}

/// A result with nothing but a body.
pub(crate) fn body(body: impl AsRef<[u8]>) -> StoredResult {
    StoredResult {
        body: Bytes::copy_from_slice(body.as_ref()),
        ..StoredResult::default()
    }
}

/// A Transition in the making. Until it is told otherwise: run once, with a fixed content and no result.
#[derive(Clone, Debug)]
pub(crate) struct Ask(pub(crate) Transition);

/// Begins one.
pub(crate) fn ask(resource: &ResourceId, operation: &str) -> Ask {
    Ask(Transition {
        resource: resource.clone(),
        intent: Intent {
            operation: OperationId::parse(operation).expect("an operation id"),
            event: None,
            identity: [].into(),
            digest: ContentDigest::of_json(b"{}").expect("JSON"),
            beside: Beside::default(),
            from: Vec::new(),
            movement: None,
            made_ms: None,
            interrupted: Interrupted::Ask,
        },
        reservation: None,
        result: None,
        afterwards: None,
        outcome: None,
        sender: Some(Holder::parse("test").expect("a name")),
        purpose: Purpose::Commit,
    })
}

/// A person found out what became of an operation; done, it had this result.
pub(crate) fn resolution(
    resource: &ResourceId,
    operation: &str,
    finding: Finding,
    result: &str,
) -> Resolve {
    Resolve {
        resource: resource.clone(),
        operation: OperationId::parse(operation).expect("an operation id"),
        finding,
        result: match finding {
            Finding::Done => body(result),
            Finding::NotDone | Finding::Refused => StoredResult::default(),
        },
        by: Holder::parse("alice").expect("a name"),
        reason: Reason::parse("the provider's books say so").expect("a reason"),
        attempt: None,
        running: Running::Spared,
    }
}

/// Creates a resource in a state.
pub(crate) fn create(resource: &ResourceId, state: &str) -> Ask {
    ask(resource, "create").initial("new").to(state)
}

impl Ask {
    pub(crate) fn build(&self) -> Transition {
        self.0.clone()
    }

    /// Asks for a claim of the operation, on a reservation of its own, for so many seconds.
    pub(crate) fn claim_for(&self, seconds: u32) -> Reserve {
        Reserve {
            intent: Some(Box::new(self.0.intent.clone())),
            ..reserve_for(&self.0.resource, seconds)
        }
    }

    /// The same, for the default TTL.
    pub(crate) fn claim(&self) -> Reserve {
        Reserve {
            intent: Some(Box::new(self.0.intent.clone())),
            ..reserve(&self.0.resource)
        }
    }

    /// If a claim of it dies, it may run again.
    pub(crate) fn reruns(mut self) -> Self {
        self.0.intent.interrupted = Interrupted::Rerun;
        self
    }

    /// What becomes of its round.
    pub(crate) fn then(mut self, afterwards: Afterwards) -> Self {
        self.0.afterwards = Some(afterwards);
        self
    }

    /// When the sender made it, in milliseconds since 1970.
    pub(crate) fn made_at(mut self, made_ms: u64) -> Self {
        self.0.intent.made_ms = Some(made_ms);
        self
    }

    /// It is only asked what would come of it.
    pub(crate) fn only_asking(mut self) -> Self {
        self.0.purpose = Purpose::Validate;
        self
    }

    /// Its content, JSON.
    pub(crate) fn json(self, text: &str) -> Self {
        self.content(Given::Json(text.as_bytes()), &DigestRule::Whole)
    }

    /// Its content, any bytes.
    pub(crate) fn raw(self, bytes: &[u8]) -> Self {
        self.content(Given::Raw(bytes), &DigestRule::Whole)
    }

    /// Its content, read under a rule.
    pub(crate) fn content(mut self, given: Given<'_>, rule: &DigestRule) -> Self {
        let content = Content::read(given, rule).expect("a content");
        let sent = match given {
            Given::Json(text) => Sent::Json(text.to_vec().into()),
            Given::Raw(bytes) => Sent::Raw(bytes.to_vec().into()),
            Given::Digest(digest) => Sent::Digest(digest.to_vec().into()),
        };
        let content = content.keeping(sent);
        self.0.intent.digest = content.digest;
        self.0.intent.beside = content.beside;
        self
    }

    pub(crate) fn from(mut self, states: &[&str]) -> Self {
        self.0.intent.from = states.iter().map(|state| state_name(state)).collect();
        self
    }

    /// What has happened, in the words of a machine.
    pub(crate) fn event(mut self, event: &str) -> Self {
        self.0.intent.event = Some(EventName::parse(event).expect("an event"));
        self
    }

    pub(crate) fn to(mut self, state: &str) -> Self {
        self.movement().to = Some(state_name(state));
        self
    }

    pub(crate) fn initial(mut self, state: &str) -> Self {
        self.movement().initial = Some(state_name(state));
        self
    }

    /// A move that leaves the state as it is.
    pub(crate) fn stay(mut self) -> Self {
        self.movement();
        self
    }

    pub(crate) fn sets(mut self, name: &str, value: &str) -> Self {
        let (name, value) = identity(name, value);
        self.movement().sets.insert(name, value);
        self
    }

    pub(crate) fn matching(mut self, name: &str, value: &str) -> Self {
        let (name, value) = identity(name, value);
        self.0.intent.identity.insert(name, value);
        self
    }

    pub(crate) fn under(mut self, round: &ReservationId) -> Self {
        self.0.reservation = Some(round.clone());
        self
    }

    pub(crate) fn result(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.0.result = Some(body(bytes));
        self
    }

    pub(crate) fn full_result(mut self, result: StoredResult) -> Self {
        self.0.result = Some(result);
        self
    }

    fn movement(&mut self) -> &mut Move {
        self.0.intent.movement.get_or_insert_default()
    }
}

fn state_name(text: &str) -> StateName {
    StateName::parse(text).expect("a state")
}

fn identity(name: &str, value: &str) -> (IdentityName, IdentityValue) {
    let name = IdentityName::parse(name).expect("an identity name");
    let value = IdentityValue::parse(value).expect("an identity value");
    (name, value)
}
