//! What is asked in the tests, in few words.

use bytes::Bytes;

use super::play::{LEASE, Play};
use crate::domain::claim::Finding;
use crate::domain::decision::Verdict;
use crate::domain::digest::{Content, Given, Sent};
use crate::domain::ids::{
    EventName, Holder, IdentityName, IdentityValue, Nonce, OperationId, Reason, RequestId,
    ReservationId, ResourceId, StateName,
};
use crate::domain::judge::{Answer, Ask, HeldRound};
use crate::domain::machine::DigestRule;
use crate::domain::outcome::StoredResult;
use crate::domain::request::{
    Afterwards, Complete, EndedRounds, Fence, Identity, Intent, Interrupted, Left, Move, Purpose,
    Reserve, Resolve, Ride, Running, Transition, Ttl,
};
use crate::domain::token::FencingToken;

pub(super) fn state(name: &str) -> StateName {
    StateName::parse(name).unwrap()
}

pub(super) fn operation(id: &str) -> OperationId {
    OperationId::parse(id).unwrap()
}

pub(super) fn result(body: &[u8]) -> StoredResult {
    StoredResult {
        body: Bytes::copy_from_slice(body),
        code: 200,
        ..StoredResult::default()
    }
}

pub(super) fn identity(name: &str, value: &str) -> (IdentityName, IdentityValue) {
    (
        IdentityName::parse(name).unwrap(),
        IdentityValue::parse(value).unwrap(),
    )
}

/// A message about the resource.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) operation: OperationId,
    pub(super) content: String,
    pub(super) event: Option<EventName>,
    pub(super) identity: Identity,
    pub(super) from: Vec<StateName>,
    pub(super) movement: Option<Move>,
    pub(super) under: Option<ReservationId>,
    pub(super) result: Option<StoredResult>,
    pub(super) made_ms: Option<u64>,
    pub(super) purpose: Purpose,
    pub(super) interrupted: Interrupted,
    pub(super) afterwards: Option<Afterwards>,
}

/// A message that is recorded once and moves nothing.
pub(super) fn once(id: &str) -> Message {
    Message {
        operation: operation(id),
        content: "10.00 EUR".to_owned(),
        event: None,
        identity: Identity::new(),
        from: Vec::new(),
        movement: None,
        under: None,
        result: None,
        made_ms: None,
        purpose: Purpose::Commit,
        interrupted: Interrupted::Ask,
        afterwards: None,
    }
}

/// A message that moves `from → to`; several starts are joined by `|`, an empty end stays.
pub(super) fn moves(id: &str, from: &str, to: &str) -> Message {
    let mut message = once(id);
    let starts = from.split('|').filter(|name| !name.is_empty());
    message.from = starts.map(state).collect();
    let movement = message.movement.insert(Move::default());
    movement.to = (!to.is_empty()).then(|| state(to));
    message
}

/// A message that says what has happened, in the words of a machine.
pub(super) fn happens(id: &str, event: &str) -> Message {
    Message {
        event: Some(EventName::parse(event).unwrap()),
        content: r#"{"amount": 10.00, "currency": "EUR"}"#.to_owned(),
        ..once(id)
    }
}

impl Message {
    pub(super) fn starting(mut self, from: &[&str]) -> Self {
        self.from = from.iter().map(|name| state(name)).collect();
        self
    }

    pub(super) fn content(mut self, content: &str) -> Self {
        content.clone_into(&mut self.content);
        self
    }

    pub(super) fn of(mut self, name: &str, value: &str) -> Self {
        self.identity.extend([identity(name, value)]);
        self
    }

    pub(super) fn sets(mut self, name: &str, value: &str) -> Self {
        let movement = self.movement.get_or_insert_default();
        movement.sets.extend([identity(name, value)]);
        self
    }

    pub(super) fn initially(mut self, initial: &str) -> Self {
        self.movement.get_or_insert_default().initial = Some(state(initial));
        self
    }

    pub(super) fn under(mut self, reservation: &ReservationId) -> Self {
        self.under = Some(reservation.clone());
        self
    }

    pub(super) fn saying(mut self, body: &str) -> Self {
        self.result = Some(result(body.as_bytes()));
        self
    }

    pub(super) fn made_at(mut self, made_ms: u64) -> Self {
        self.made_ms = Some(made_ms);
        self
    }

    pub(super) fn only_asking(mut self) -> Self {
        self.purpose = Purpose::Validate;
        self
    }

    pub(super) fn with_result(mut self, result: StoredResult) -> Self {
        self.result = Some(result);
        self
    }

    /// JSON if it looks like it, else bytes.
    fn given(&self) -> Given<'_> {
        let content = self.content.as_bytes();
        match content {
            [b'{' | b'[' | b'"', ..] => Given::Json(content),
            _ => Given::Raw(content),
        }
    }

    /// If a claim of it dies, it may run again.
    pub(super) fn reruns(mut self) -> Self {
        self.interrupted = Interrupted::Rerun;
        self
    }

    pub(super) fn intent(&self) -> Intent {
        let content = Content::read(self.given(), &DigestRule::Whole).unwrap();
        let sent = Bytes::copy_from_slice(self.content.as_bytes());
        let content = content.keeping(match self.given() {
            Given::Json(_) => Sent::Json(sent),
            Given::Raw(_) | Given::Digest(_) => Sent::Raw(sent),
        });
        Intent {
            operation: self.operation.clone(),
            event: self.event.clone(),
            identity: self.identity.clone(),
            digest: content.digest,
            beside: content.beside,
            from: self.from.clone(),
            movement: self.movement.clone(),
            made_ms: self.made_ms,
            interrupted: self.interrupted,
        }
    }

    pub(super) fn ask(&self, resource: &ResourceId, nonce: Nonce) -> Ask {
        let transition = Transition {
            resource: resource.clone(),
            intent: self.intent(),
            reservation: self.under.clone(),
            result: self.result.clone(),
            sender: Some(Holder::parse("sender").unwrap()),
            purpose: self.purpose,
            afterwards: self.afterwards,
            outcome: None,
        };
        Ask::Transition(Box::new(transition), nonce)
    }

    /// Asks for a claim: on the reservation that it names, else on one of its own.
    pub(super) fn claim(&self, resource: &ResourceId, request: u8, nonce: Nonce) -> Ask {
        let request = RequestId::from_bytes([request; 16]);
        match &self.under {
            Some(reservation) => {
                let ride = Ride {
                    reservation: reservation.clone(),
                    request,
                    intent: self.intent(),
                };
                Ask::Ride(Box::new(ride), nonce)
            }
            None => {
                let reserve = Reserve {
                    resource: resource.clone(),
                    request,
                    ttl: Ttl::parse(None).unwrap(),
                    holder: None,
                    intent: Some(Box::new(self.intent())),
                };
                Ask::Reserve(reserve, nonce, Some(LEASE))
            }
        }
    }
}

pub(super) fn reserve_as(resource: &ResourceId, request: u8, nonce: Nonce) -> Ask {
    let reserve = Reserve {
        resource: resource.clone(),
        request: RequestId::from_bytes([request; 16]),
        ttl: Ttl::parse(None).unwrap(),
        holder: None,
        intent: None,
    };
    Ask::Reserve(reserve, nonce, Some(LEASE))
}

/// Completes the claim of a round.
pub(super) fn completing(
    reservation: ReservationId,
    result: Option<StoredResult>,
    afterwards: Option<Afterwards>,
) -> Box<Complete> {
    Box::new(Complete {
        reservation,
        result,
        afterwards,
        outcome: None,
        sender: Some(Holder::parse("sender").unwrap()),
        purpose: Purpose::Commit,
    })
}

/// A person says what was found out; with DONE, what the effect said.
pub(super) fn resolution(
    resource: &ResourceId,
    id: &str,
    finding: Finding,
    running: Running,
) -> Resolve {
    let said = match finding {
        Finding::Done => result(b"as the books say"),
        Finding::NotDone | Finding::Refused => StoredResult::default(),
    };
    Resolve {
        resource: resource.clone(),
        operation: operation(id),
        finding,
        result: said,
        by: Holder::parse("alice").unwrap(),
        reason: Reason::parse("looked into the books").unwrap(),
        attempt: None,
        running,
    }
}

pub(super) fn fence_as(resource: &ResourceId, token: u64, ended: EndedRounds) -> Ask {
    Ask::Fence(Fence {
        resource: resource.clone(),
        token: FencingToken::shown(token as i64).unwrap(),
        ended,
    })
}

impl Play {
    pub(super) fn message(&mut self, message: &Message) -> Ask {
        let nonce = self.nonce();
        message.ask(&self.resource, nonce)
    }

    /// Sends a message, as a delivery of its own.
    pub(super) fn send(&mut self, message: &Message) -> Answer {
        let ask = self.message(message);
        self.ask(ask)
    }

    /// Sends messages that must all be applied.
    pub(super) fn past(&mut self, messages: &[Message]) {
        for message in messages {
            let answer = self.send(message);
            let verdict = answer.decision().verdict;
            assert_eq!(verdict, Verdict::Applied, "{message:?}");
        }
    }

    pub(super) fn reserve(&mut self, request: u8) -> Ask {
        let nonce = self.nonce();
        reserve_as(&self.resource, request, nonce)
    }

    /// Takes the reservation, which must be free.
    pub(super) fn hold(&mut self, request: u8) -> (ReservationId, HeldRound) {
        let ask = self.reserve(request);
        let held = self.ask(ask).held();
        (self.id_of(held.nonce), held)
    }

    pub(super) fn release(&mut self, reservation: &ReservationId) -> Ask {
        Ask::Release(reservation.clone(), Left::Unsaid, self.nonce())
    }

    /// Asks for a claim of a message's operation.
    pub(super) fn take(&mut self, message: &Message, request: u8) -> Answer {
        let nonce = self.nonce();
        let ask = message.claim(&self.resource, request, nonce);
        self.ask(ask)
    }

    /// Claims what must be granted.
    pub(super) fn claimed(&mut self, message: &Message, request: u8) -> (ReservationId, HeldRound) {
        let held = self.take(message, request).held();
        (self.id_of(held.nonce), held)
    }

    /// Completes by the reservation alone.
    pub(super) fn complete(&mut self, reservation: &ReservationId, body: &str) -> Answer {
        let said = Some(result(body.as_bytes()));
        let ask = completing(reservation.clone(), said, None);
        let nonce = self.nonce();
        self.ask(Ask::Complete(ask, nonce))
    }

    /// Releases, saying that nothing was done.
    pub(super) fn give_back(&mut self, reservation: &ReservationId) -> Answer {
        let nonce = self.nonce();
        self.ask(Ask::Release(reservation.clone(), Left::NothingDone, nonce))
    }

    /// A person resolves an operation.
    pub(super) fn resolve(&mut self, id: &str, finding: Finding) -> Answer {
        let ask = resolution(&self.resource, id, finding, Running::Spared);
        let nonce = self.nonce();
        self.ask(Ask::Resolve(Box::new(ask), nonce))
    }

    pub(super) fn let_go(&mut self, reservation: &ReservationId) -> Answer {
        let ask = self.release(reservation);
        self.ask(ask)
    }

    pub(super) fn fence(&mut self, token: u64, ended: EndedRounds) -> Answer {
        let ask = fence_as(&self.resource, token, ended);
        self.ask(ask)
    }
}
