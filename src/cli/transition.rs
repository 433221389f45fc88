//! `transition`.

use clap::Args;

use super::exit::Exit;
use super::intent::{IntentArgs, ResultArgs};
use super::reservation::exit;
use super::session::{Session, SessionArgs};
use super::trouble::Trouble;
use super::wait::WaitArgs;
use super::{ResourceArgs, output};
use crate::proto::v1::TransitionRequest;

/// Asks for a move.
#[derive(Debug, Args)]
pub(super) struct TransitionArgs {
    #[command(flatten)]
    resource: ResourceArgs,
    #[command(flatten)]
    intent: IntentArgs,
    /// The reservation_id under which you work; without --operation, its claim is completed
    #[arg(long, env = "FENCEPOST_RESERVATION", value_name = "ID")]
    reservation: Option<String>,
    /// Whether the reservation ends with the move: true or false [default: true if it began with the claim that is completed]
    #[arg(long, env = "FENCEPOST_RELEASE", value_name = "BOOL")]
    release: Option<bool>,
    /// Completing the claim of an event: what its effect turned out to be, if not what was intended
    #[arg(
        long,
        env = "FENCEPOST_OUTCOME_EVENT",
        value_name = "EVENT",
        requires = "reservation"
    )]
    outcome_event: Option<String>,
    #[command(flatten)]
    result: ResultArgs,
    #[command(flatten)]
    wait: WaitArgs,
    /// Only tell what would come of it now, with the exit code that it would have; nothing is written
    #[arg(long, env = "FENCEPOST_VALIDATE_ONLY")]
    validate_only: bool,
    #[command(flatten)]
    session: SessionArgs,
}

impl TransitionArgs {
    /// Asks and prints.
    pub(super) async fn run(self) -> Result<Exit, Trouble> {
        let form = self.session.printing.output;
        let connection = self.session.clone();
        let wait = self.wait.span();
        let request = self.request()?;
        let session = Session::open(&connection).await?;
        let request = session.ask_waiting(request, wait);
        let answer = session.answer(session.client().transition(request)).await?;
        output::answer(form, "TransitionResponse", &answer, |table| {
            if let Some(decision) = &answer.decision {
                table.decision(decision);
            }
        })?;
        Ok(exit(answer.decision.as_ref()))
    }

    fn request(self) -> Result<TransitionRequest, Trouble> {
        if self.intent.reads_stdin() && self.result.reads_stdin() {
            return Err(Trouble::usage(
                "the content and --result both name standard input; give one of them as @FILE",
            ));
        }
        let intent = self.intent.read(false)?;
        if intent.is_none() && self.reservation.is_none() {
            return Err(Trouble::usage(
                "what is to be done? Give --operation KEY, or --reservation ID to complete the claim that it carries",
            ));
        }
        Ok(TransitionRequest {
            resource: Some(self.resource.named()?),
            intent,
            reservation_id: self.reservation.unwrap_or_default(),
            result: self.result.read()?,
            validate_only: self.validate_only,
            release: self.release,
            wait: self.wait.to_wire()?,
            outcome_event: self.outcome_event.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use clap::Parser;

    use super::*;
    use crate::proto::v1::Move;
    use crate::proto::v1::intent::Content;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: TransitionArgs,
    }

    fn request(line: &str) -> Result<TransitionRequest, Trouble> {
        let words = format!("transition order 1 --operation k {line}");
        let words = words.split(' ').filter(|word| !word.is_empty());
        Line::try_parse_from(words)
            .map_err(|error| Trouble::usage(error.to_string()))?
            .args
            .request()
    }

    #[test]
    fn a_transition_runs_once_only_if_it_says_so() {
        let told = request("").unwrap_err();
        assert_eq!(told.exit, Exit::Usage);
        assert!(told.message.contains("--to STATE"), "{}", told.message);
        let asked = request("--once").unwrap();
        assert_eq!(asked.result, None);
        let intent = asked.intent.unwrap();
        assert_eq!(intent.content, Some(Content::Raw(Bytes::new())));
        assert_eq!(intent.r#move, None);
    }

    #[test]
    fn every_flag_reaches_its_field() {
        let asked = request(
            "--json {\"a\":1} --identity try=p1 --from pending --from new --to paid --initial pending --set try=p2 \
             --reservation r --wait 1m --result ok --result-code 200 --result-type text/plain --result-header A:b",
        )
        .unwrap();
        assert_eq!(asked.reservation_id, "r");
        assert_eq!(asked.wait.unwrap().seconds, 60);
        let result = asked.result.unwrap();
        assert_eq!((&result.body[..], result.code), (&b"ok"[..], 200));
        assert_eq!(result.content_type, "text/plain");
        assert_eq!(result.headers[0].value, "b");
        let intent = asked.intent.unwrap();
        assert_eq!(
            intent.content,
            Some(Content::Json(Bytes::from_static(b"{\"a\":1}")))
        );
        assert_eq!(intent.identity["try"], "p1");
        assert_eq!(intent.from_states, ["pending", "new"]);
        let movement = intent.r#move.unwrap();
        assert_eq!(
            (&*movement.to_state, &*movement.initial_state),
            ("paid", "pending")
        );
        assert_eq!(movement.sets["try"], "p2");
    }

    #[test]
    fn an_event_goes_without_a_move() {
        let intent = request("--event pay --identity try=p1 --from pending").unwrap();
        let intent = intent.intent.unwrap();
        assert_eq!((&*intent.event, intent.r#move), ("pay", None));
        assert_eq!(intent.from_states, ["pending"]);
    }

    #[test]
    fn a_reservation_alone_completes_its_claim() {
        let line = "transition order 1 --reservation r --result ok --release false";
        let args = Line::try_parse_from(line.split(' ')).unwrap().args;
        let asked = args.request().unwrap();
        assert_eq!((asked.intent, asked.release), (None, Some(false)));
        assert_eq!(asked.reservation_id, "r");
        for line in [
            "transition order 1",
            "transition order 1 --to paid --reservation r",
        ] {
            let args = Line::try_parse_from(line.split(' ')).unwrap().args;
            let told = args.request().unwrap_err();
            assert_eq!(told.exit, Exit::Usage, "{line}");
            assert!(told.message.contains("--operation"), "{}", told.message);
        }
    }

    #[test]
    fn staying_is_a_move_and_an_empty_result_is_a_result() {
        let asked = request("--from paid --stay --result-code 204").unwrap();
        assert_eq!(asked.intent.unwrap().r#move, Some(Move::default()));
        assert_eq!(asked.result.unwrap().code, 204);
    }

    #[test]
    fn contradictions_are_usage_errors() {
        for line in [
            "--json {} --raw x",
            "--stay --to paid",
            "--once --to paid",
            "--once --set a=1",
            "--initial new",
            "--json - --result -",
            "--stay --set a=1 --set a=2",
            "--event pay --to paid",
            "--event pay --stay",
            "--event pay --once",
            "--event pay --set a=1",
            "--event pay --initial new",
        ] {
            assert_eq!(request(line).unwrap_err().exit, Exit::Usage, "{line}");
        }
    }
}
