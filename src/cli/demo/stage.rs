//! What every scene plays on: one connection, names that no other run uses, and what is told about a scene.

use bytes::Bytes;
use tonic::Code;
use uuid::Uuid;

use super::super::exit::Exit;
use super::super::session::{Session, SessionArgs};
use super::super::table::{advice_name, verdict_name};
use super::super::trouble::{Trouble, plain};
use super::law::{Law, Step, Way};
use crate::proto::v1::{
    Advice, Decision, FenceRequest, InspectRequest, Intent, LookupRequest, OperationState,
    ReleaseRequest, Reservation, ReserveRequest, Resource, Result as Stored, Snapshot,
    TransitionRequest, intent::Content,
};

/// One connection, and names that no other run uses.
#[derive(Debug)]
pub(super) struct Stage {
    session: Session,
    run: String,
    law: Law,
}

impl Stage {
    /// Connects. A fresh name for the run lets it be repeated on a sidecar that remembers.
    pub(super) async fn open(args: &SessionArgs, law: Law) -> Result<Self, Trouble> {
        Ok(Self {
            session: Session::open(args).await?,
            run: Uuid::new_v4().simple().to_string(),
            law,
        })
    }

    /// What orders and seats are judged by.
    pub(super) fn law(&self) -> Law {
        self.law
    }

    /// Without machines from here on.
    pub(super) fn without_machines(self) -> Self {
        Self {
            law: Law::Requests,
            ..self
        }
    }

    /// Fails if whoever listens is no sidecar: nothing can be played there.
    pub(super) async fn is_a_sidecar(&self) -> Result<(), Trouble> {
        let request = InspectRequest {
            resource: Some(self.ruled("order", "is-anybody-there")),
            with_queue: false,
        };
        let asked = self.session.ask(request);
        let mut client = self.session.client();
        match self.session.answer(client.inspect(asked)).await {
            Err(trouble) if matches!(trouble.exit, Exit::Unavailable | Exit::Failed) => {
                Err(trouble)
            }
            // What goes wrong otherwise goes wrong in the scenes.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Whether the sidecar judges orders by the machine that was applied: the admin socket may be another sidecar's.
    pub(super) async fn knows_the_machine(&self) -> Result<bool, Trouble> {
        let place = Step {
            key: "place".into(),
            event: "place",
            way: Way::Stays(""),
            matches: None,
            sets: None,
            content: Content::Raw(Bytes::new()),
        };
        let asked = TransitionRequest {
            validate_only: true,
            ..self.asked(&self.ruled("order", "is-there-a-machine"), place)
        };
        let mut client = self.session.client();
        match client.transition(self.session.ask(asked)).await {
            Ok(_) => Ok(true),
            Err(status) if status.code() == Code::NotFound => Ok(false),
            Err(status) => Err(self.session.trouble(&status)),
        }
    }

    /// An order or a seat of this run alone.
    pub(super) fn ruled(&self, name: &str, id: &str) -> Resource {
        Resource {
            kind: self.law.kind(name),
            id: format!("{id}/{}", self.run),
        }
    }

    /// A step in the words of the law.
    pub(super) fn asked(&self, resource: &Resource, step: Step) -> TransitionRequest {
        TransitionRequest {
            resource: Some(resource.clone()),
            intent: Some(self.law.intent(step)),
            ..TransitionRequest::default()
        }
    }

    /// A step that the scene rests on: it must be settled.
    pub(super) async fn step(&self, resource: &Resource, step: Step) -> Result<(), Trouble> {
        let key = step.key.clone();
        let decision = self.transition(self.asked(resource, step)).await?;
        if settled(&decision) {
            return Ok(());
        }
        Err(Trouble::failed(format!(
            "the scene's own step `{key}` was turned away: {}",
            decision.explanation
        )))
    }

    /// A resource of this run alone, of a kind that no machine judges.
    pub(super) fn resource(&self, kind: &str, name: &str) -> Resource {
        Resource {
            kind: format!("demo-{kind}"),
            id: format!("{name}/{}", self.run),
        }
    }

    /// Transition.
    pub(super) async fn transition(&self, request: TransitionRequest) -> Result<Decision, Trouble> {
        let mut client = self.session.client();
        let answer = self
            .session
            .answer(client.transition(self.session.ask(request)))
            .await?;
        judged(answer.decision)
    }

    /// Reserve, with what was granted, if it was.
    pub(super) async fn reserve(
        &self,
        resource: &Resource,
        ttl_seconds: i64,
        holder: &str,
    ) -> Result<(Decision, Option<Reservation>), Trouble> {
        let request = ReserveRequest {
            resource: Some(resource.clone()),
            request_id: Uuid::new_v4().to_string(),
            ttl: Some(prost_types::Duration {
                seconds: ttl_seconds,
                nanos: 0,
            }),
            holder: holder.to_owned(),
            ..ReserveRequest::default()
        };
        let mut client = self.session.client();
        let answer = self
            .session
            .answer(client.reserve(self.session.ask(request)))
            .await?;
        Ok((judged(answer.decision)?, answer.reservation))
    }

    /// Reserve with an intent, with what was granted, if it was.
    pub(super) async fn claim(
        &self,
        resource: &Resource,
        ttl_seconds: i64,
        intent: Intent,
    ) -> Result<(Decision, Option<Reservation>), Trouble> {
        let request = ReserveRequest {
            resource: Some(resource.clone()),
            request_id: Uuid::new_v4().to_string(),
            ttl: Some(prost_types::Duration {
                seconds: ttl_seconds,
                nanos: 0,
            }),
            intent: Some(intent),
            ..ReserveRequest::default()
        };
        let mut client = self.session.client();
        let answer = self
            .session
            .answer(client.reserve(self.session.ask(request)))
            .await?;
        Ok((judged(answer.decision)?, answer.reservation))
    }

    /// Transition that completes what a reservation has claimed.
    pub(super) async fn complete(
        &self,
        resource: &Resource,
        reservation_id: &str,
        body: Bytes,
    ) -> Result<Decision, Trouble> {
        let result = Stored {
            body,
            ..Stored::default()
        };
        self.transition(TransitionRequest {
            resource: Some(resource.clone()),
            reservation_id: reservation_id.to_owned(),
            result: Some(result),
            ..TransitionRequest::default()
        })
        .await
    }

    /// Release.
    pub(super) async fn release(&self, reservation_id: &str) -> Result<Decision, Trouble> {
        let request = ReleaseRequest {
            reservation_id: reservation_id.to_owned(),
            ..ReleaseRequest::default()
        };
        let mut client = self.session.client();
        let answer = self
            .session
            .answer(client.release(self.session.ask(request)))
            .await?;
        judged(answer.decision)
    }

    /// Fence.
    pub(super) async fn fence(&self, resource: &Resource, token: i64) -> Result<Decision, Trouble> {
        let request = FenceRequest {
            resource: Some(resource.clone()),
            token,
            even_if_ended: false,
        };
        let mut client = self.session.client();
        let answer = self
            .session
            .answer(client.fence(self.session.ask(request)))
            .await?;
        judged(answer.decision)
    }

    /// Lookup.
    pub(super) async fn lookup(
        &self,
        resource: &Resource,
        key: &str,
    ) -> Result<OperationState, Trouble> {
        let request = LookupRequest {
            resource: Some(resource.clone()),
            operation_id: key.to_owned(),
            ..LookupRequest::default()
        };
        let mut client = self.session.client();
        let answer = self
            .session
            .answer(client.lookup(self.session.ask(request)))
            .await?;
        Ok(answer.state())
    }

    /// Inspect.
    pub(super) async fn inspect(&self, resource: &Resource) -> Result<Snapshot, Trouble> {
        let request = InspectRequest {
            resource: Some(resource.clone()),
            with_queue: false,
        };
        let mut client = self.session.client();
        let answer = self
            .session
            .answer(client.inspect(self.session.ask(request)))
            .await?;
        answer
            .snapshot
            .ok_or_else(|| Trouble::failed("Inspect answered without a snapshot"))
    }
}

fn judged(decision: Option<Decision>) -> Result<Decision, Trouble> {
    decision.ok_or_else(|| Trouble::failed("the sidecar answered without a decision"))
}

/// True: the caller may go on.
pub(super) fn may_run(decision: &Decision) -> bool {
    decision.advice() == Advice::Proceed
}

/// True: the matter is settled.
pub(super) fn settled(decision: &Decision) -> bool {
    decision.advice() == Advice::Acknowledge
}

/// Advice, verdict and reason in one line.
pub(super) fn said(decision: &Decision) -> String {
    plain(&format!(
        "{}, {} ({}): {}",
        advice_name(decision.advice()),
        verdict_name(decision.verdict()),
        decision.rule,
        decision.explanation
    ))
}

/// How a scene went.
#[derive(Debug)]
pub(super) struct Played {
    /// Two or three lines: what happened, advice and verdict, why.
    pub(super) story: Vec<String>,
    /// In a few words, for the table.
    pub(super) came_out: String,
    /// What should have been otherwise; empty: it came out right.
    pub(super) wrong: Vec<String>,
}

impl Played {
    /// Begins a story.
    pub(super) fn new(story: impl IntoIterator<Item = String>) -> Self {
        Self {
            story: story.into_iter().collect(),
            came_out: String::new(),
            wrong: Vec::new(),
        }
    }

    /// A scene that could not be played to its end did not come out right.
    pub(super) fn broken_off(why: &str) -> Self {
        Self {
            story: Vec::new(),
            came_out: "broken off".into(),
            wrong: vec![plain(why)],
        }
    }

    /// What must be so.
    pub(super) fn must(mut self, holds: bool, what: impl Into<String>) -> Self {
        if !holds {
            self.wrong.push(plain(&what.into()));
        }
        self
    }

    /// What the table says.
    pub(super) fn came_out(mut self, how: impl Into<String>) -> Self {
        self.came_out = plain(&how.into());
        self
    }
}
