//! What is asked of the sidecar: the reservation, its end, and what came of the command.

use std::time::Duration;

use tonic::Status;

use super::super::exit::Exit;
use super::super::output::say;
use super::super::session::Session;
use super::super::trouble::{Trouble, was_refused};
use super::child::End;
use super::keeping::{Keeping, safe_for};
use super::words;
use crate::engine::Boottime;
use crate::proto::v1::{
    Decision, ReleaseRequest, Reservation, ReserveRequest, Resource, Result as Stored,
    TransitionRequest, Verdict,
};

/// How often a reservation is asked for whose answers are lost, also when there is no time to wait.
const ASKS_MAX: u32 = 3;
/// How long between two questions that are the same.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(300);
/// The most that this grows to where a sidecar is away for long: a sidecar that has come back is found about so soon.
const ASK_AGAIN_AFTER_MAX: Duration = Duration::from_secs(3);
/// How long a release may take. It only spares others the rest of the TTL.
const RELEASE_WITHIN: Duration = Duration::from_secs(3);

/// The reservation that a command needs.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) session: Session,
    pub(super) request: ReserveRequest,
    pub(super) wait: Duration,
}

/// What was answered.
#[derive(Debug)]
pub(super) enum Answer {
    /// It is ours.
    Granted(Round),
    /// It is not.
    Not(Box<Decision>),
}

/// A reservation that was granted.
#[derive(Debug)]
pub(super) struct Round {
    /// Names it.
    pub(super) id: String,
    /// Its fencing token.
    pub(super) token: i64,
    /// Which attempt at its operation it is; 0 without one.
    pub(super) attempt: i32,
    /// Until when it is certainly held.
    pub(super) bound: Boottime,
}

impl Round {
    fn new(reservation: Reservation, asked: Boottime) -> Self {
        Self {
            bound: asked.plus(safe_for(&reservation)),
            id: reservation.reservation_id,
            token: reservation.token,
            attempt: reservation.attempt,
        }
    }
}

impl Wanted {
    /// Asks for it. A lost answer is asked for again: else what was granted would be held by nobody. So is, until the wait is over,
    /// what a sidecar answers that is being stopped, and what is heard where there is none for a while.
    pub(super) async fn reserve(&self) -> Result<Answer, Trouble> {
        self.reserve_within(self.wait).await
    }

    async fn reserve_within(&self, wait: Duration) -> Result<Answer, Trouble> {
        let until = Boottime::now().plus(wait);
        let mut pause = ASK_AGAIN_AFTER;
        let mut known = None;
        let mut asked: u32 = 0;
        let mut told = wait.is_zero();
        loop {
            asked = asked.saturating_add(1);
            let began = Boottime::now();
            let heard = self.ask(until.left()).await;
            let again = match &heard {
                Heard::Settled(_) => false,
                Heard::NotYet(_) => !until.left().is_zero(),
                Heard::Lost(_) | Heard::Unheard(_) => !until.left().is_zero() || asked < ASKS_MAX,
            };
            if again && let Some(why) = heard.why_no_answer().filter(|_| !told) {
                told = true;
                say_waiting(&why, until.left());
            }
            let last = last_known(known.take(), heard);
            if !again {
                return last.answer();
            }
            known = Some(last);
            if began.plus(ASK_AGAIN_AFTER_MAX).left().is_zero() {
                // It was there for a while.
                pause = ASK_AGAIN_AFTER;
            }
            let left = until.left();
            // One that has no time left asks only for an answer that was lost.
            let now = if left.is_zero() {
                pause
            } else {
                pause.min(left)
            };
            tokio::time::sleep(now).await;
            pause = pause.saturating_mul(2).min(ASK_AGAIN_AFTER_MAX);
        }
    }

    async fn ask(&self, wait: Duration) -> Heard {
        let request = match self.asking(wait) {
            Ok(request) => request,
            Err(trouble) => return Heard::Settled(Err(trouble)),
        };
        let sent = Boottime::now();
        let request = self.session.ask_waiting(request, wait);
        let answer = match self.session.client().reserve(request).await {
            Ok(answer) => answer.into_inner(),
            Err(status) => {
                let trouble = words::of_the_command_line(&status, self.session.trouble(&status));
                // It may have gone since, so that the last connection was refused.
                if self.session.met_a_stranger() {
                    return Heard::Settled(Err(trouble));
                }
                return Heard::of_status(&status, trouble);
            }
        };
        match (answer.reservation, answer.decision) {
            (Some(reservation), _) => {
                Heard::Settled(Ok(Answer::Granted(Round::new(reservation, sent))))
            }
            (None, Some(decision)) => Heard::of_refusal(decision),
            (None, None) => {
                Heard::Settled(Err(Trouble::failed("the sidecar's answer has no decision")))
            }
        }
    }

    fn asking(&self, wait: Duration) -> Result<ReserveRequest, Trouble> {
        let wire = Some(wait).filter(|wait| !wait.is_zero());
        Ok(ReserveRequest {
            wait: wire
                .map(prost_types::Duration::try_from)
                .transpose()
                .map_err(|_| Trouble::usage("--wait is too long; the most is 10m"))?,
            ..self.request.clone()
        })
    }

    /// Whoever asked does not want it any more, and does not know whether it was granted: the same request tells.
    pub(super) async fn take_back(&self) {
        let taken_back = async {
            if let Ok(Answer::Granted(round)) = self.reserve_within(Duration::ZERO).await {
                self.release(&round.id, Effect::None).await;
            }
        };
        // If that fails, it runs out.
        let _ = tokio::time::timeout(RELEASE_WITHIN, taken_back).await;
    }

    /// Ends the reservation. `None`: that was not heard, and it runs out.
    pub(super) async fn release(&self, reservation: &str, effect: Effect) -> Option<Decision> {
        let request = ReleaseRequest {
            reservation_id: reservation.to_owned(),
            nothing_done: effect == Effect::None,
            result: match effect {
                Effect::None | Effect::Unknown => None,
                Effect::Ended(end) => Some(how_it_ended(end)),
            },
        };
        let released = async {
            loop {
                match self.release_once(&request).await {
                    Ok(decision) => return decision,
                    Err(trouble) if !may_be_asked_again(&trouble) => return None,
                    Err(_) => tokio::time::sleep(ASK_AGAIN_AFTER).await,
                }
            }
        };
        let released = tokio::time::timeout(RELEASE_WITHIN, released).await;
        released.ok().flatten()
    }

    async fn release_once(&self, request: &ReleaseRequest) -> Result<Option<Decision>, Trouble> {
        let request = self.session.ask(request.clone());
        let mut client = self.session.client();
        let answer = self.session.answer(client.release(request)).await?;
        Ok(answer.decision)
    }

    /// The command has ended after its reservation did: how, is kept for whoever decides about its operation.
    pub(super) async fn tell_late(&self, reservation: &str, end: End) -> Option<Decision> {
        let request = self.completing(reservation, how_it_ended(end));
        let mut client = self.session.client();
        let told = client.transition(self.session.ask(request));
        // Nobody builds on it.
        let told = tokio::time::timeout(RELEASE_WITHIN, told).await.ok()?;
        told.ok()?.into_inner().decision
    }

    fn completing(&self, reservation: &str, result: Stored) -> TransitionRequest {
        TransitionRequest {
            resource: self.request.resource.clone(),
            reservation_id: reservation.to_owned(),
            result: Some(result),
            ..TransitionRequest::default()
        }
    }

    /// Stores how the command ended, and ends the reservation with that. Asked again for as long as that is held: a result must not
    /// be lost because a sidecar starts anew.
    pub(super) async fn complete(
        &self,
        round: &Round,
        code: u8,
        keeping: &Keeping,
    ) -> Result<Decision, Trouble> {
        let result = Stored {
            code: code.into(),
            ..Stored::default()
        };
        let request = self.completing(&round.id, result);
        let mut client = self.session.client();
        loop {
            let call = client.transition(self.session.ask(request.clone()));
            let within = keeping.standing().bound.left().max(RELEASE_WITHIN);
            let answer = match tokio::time::timeout(within, self.session.answer(call)).await {
                Ok(answer) => answer,
                Err(_) => Err(self.session.trouble(&tonic::Status::cancelled("too late"))),
            };
            match answer {
                Ok(answer) => {
                    return answer
                        .decision
                        .ok_or_else(|| Trouble::failed("the sidecar's answer has no decision"));
                }
                Err(trouble) if !may_be_asked_again(&trouble) => return Err(trouble),
                Err(trouble) if keeping.standing().bound.left().is_zero() => return Err(trouble),
                Err(_) => tokio::time::sleep(ASK_AGAIN_AFTER).await,
            }
        }
    }

    /// What it is about.
    pub(super) fn resource(&self) -> Resource {
        self.request.resource.clone().unwrap_or_default()
    }
}

/// Says what is waited for, beside a turn.
pub(super) fn say_waiting(why: &str, left: Duration) {
    let left = humantime::format_duration(Duration::from_secs(left.as_secs().max(1)));
    say(&format!(
        "fencepost: {why}; waiting goes on, for {left} at most\n"
    ));
}

/// What came of asking once.
#[derive(Debug)]
enum Heard {
    /// Asking again changes nothing.
    Settled(Result<Answer, Trouble>),
    /// It is not ours, and may be later.
    NotYet(Result<Answer, Trouble>),
    /// It may be ours: the answer was lost.
    Lost(Trouble),
    /// Nobody was there to hear the question.
    Unheard(Trouble),
}

impl Heard {
    fn of_status(status: &Status, trouble: Trouble) -> Self {
        // Only an error that arose on this side of the wire has a source.
        let here = std::error::Error::source(status).is_some();
        match trouble.exit {
            Exit::Unavailable if was_refused(status) => Self::Unheard(trouble),
            Exit::Unknown => Self::Lost(trouble),
            // Whoever listens there is no sidecar, and does not become one.
            Exit::Unavailable if here => Self::Settled(Err(trouble)),
            Exit::Unavailable => Self::NotYet(Err(trouble)),
            Exit::Good
            | Exit::SceneFailed
            | Exit::Usage
            | Exit::Retry
            | Exit::Refuse
            | Exit::Abandon
            | Exit::NeverSeen
            | Exit::Interrupted
            | Exit::Invalid
            | Exit::Failed => Self::Settled(Err(trouble)),
        }
    }

    fn of_refusal(decision: Decision) -> Self {
        // A sidecar that is being stopped says so to whoever waits there.
        let passes = matches!(decision.verdict(), Verdict::Busy | Verdict::InProgress);
        let answer = Ok(Answer::Not(Box::new(decision)));
        if passes {
            Self::NotYet(answer)
        } else {
            Self::Settled(answer)
        }
    }

    /// Why there is no answer yet that settles it, for people who wait. `None`: there is one.
    fn why_no_answer(&self) -> Option<String> {
        match self {
            Self::Settled(_) | Self::NotYet(Ok(_)) => None,
            Self::NotYet(Err(trouble)) | Self::Unheard(trouble) => Some(trouble.message.clone()),
            Self::Lost(_) => Some("the connection to the sidecar is broken".to_owned()),
        }
    }

    fn answer(self) -> Result<Answer, Trouble> {
        match self {
            Self::Settled(answer) | Self::NotYet(answer) => answer,
            Self::Lost(trouble) | Self::Unheard(trouble) => Err(trouble),
        }
    }
}

/// What is known once this was heard, too. What may be ours stays so until a decision tells; a question that nobody heard changes
/// nothing, and where nobody could take one, nothing was decided.
fn last_known(before: Option<Heard>, heard: Heard) -> Heard {
    match (before, heard) {
        (Some(before), Heard::Unheard(_)) => before,
        (Some(before @ Heard::Lost(_)), Heard::NotYet(Err(_))) => before,
        (_, heard) => heard,
    }
}

/// What is known of a claimed operation's effect when its reservation is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It has not begun.
    None,
    /// It may have been done, in part or as a whole.
    Unknown,
    /// The same, and this is how the command ended.
    Ended(End),
}

/// For whoever decides. The text keeps a 0 that came too late from being no result at all.
fn how_it_ended(end: End) -> Stored {
    let body = match end {
        End::Exited(code) => format!("the command ended with exit code {code}"),
        End::Killed(signal) => format!("signal {signal} ended the command"),
    };
    Stored {
        body: body.into(),
        code: end.code().into(),
        content_type: "text/plain".to_owned(),
        ..Stored::default()
    }
}

fn may_be_asked_again(trouble: &Trouble) -> bool {
    matches!(trouble.exit, Exit::Unknown | Exit::Unavailable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy() -> Heard {
        Heard::of_refusal(Decision {
            verdict: Verdict::Busy.into(),
            ..Decision::default()
        })
    }

    fn of(status: &Status) -> Heard {
        Heard::of_status(status, Trouble::from_status("here", status))
    }

    fn broken(kind: std::io::ErrorKind) -> Heard {
        of(&Status::from_error(Box::new(std::io::Error::from(kind))))
    }

    fn exit(known: Heard) -> Exit {
        match known.answer() {
            Ok(Answer::Not(_)) => Exit::Retry,
            Ok(Answer::Granted(_)) => Exit::Good,
            Err(trouble) => trouble.exit,
        }
    }

    #[test]
    fn what_was_last_known_is_told_and_what_may_be_ours_stays_unknown() {
        use std::io::ErrorKind::{ConnectionRefused, ConnectionReset};
        let away = || of(&Status::unavailable("stopping"));
        let cases = [
            (busy(), broken(ConnectionRefused), Exit::Retry),
            (busy(), away(), Exit::Unavailable),
            (busy(), broken(ConnectionReset), Exit::Unknown),
            (broken(ConnectionReset), away(), Exit::Unknown),
            (
                broken(ConnectionReset),
                broken(ConnectionRefused),
                Exit::Unknown,
            ),
            (broken(ConnectionReset), busy(), Exit::Retry),
            (broken(ConnectionRefused), away(), Exit::Unavailable),
        ];
        for (before, heard, wanted) in cases {
            let told = format!("{before:?}, then {heard:?}");
            assert_eq!(exit(last_known(Some(before), heard)), wanted, "{told}");
        }
    }
}
