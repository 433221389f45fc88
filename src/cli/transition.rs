//! `transition`.

use bytes::Bytes;
use clap::Args;
use prost_types::Timestamp;

use super::exit::Exit;
use super::reservation::exit;
use super::session::{Session, SessionArgs};
use super::trouble::Trouble;
use super::values::{self, Source};
use super::{ResourceArgs, output};
use crate::proto::v1::{
    Header, Intent, Move, Result as Stored, TransitionRequest, intent::Content,
};

/// Asks for a move.
#[derive(Debug, Args)]
pub(super) struct TransitionArgs {
    #[command(flatten)]
    resource: ResourceArgs,
    /// The sender's stable key of this business action, equal in every resend
    #[arg(long, env = "FENCEPOST_OPERATION", value_name = "KEY")]
    operation: String,
    #[command(flatten)]
    content: ContentArgs,
    /// A value that proves that the message belongs to the round in force, or that the event sets; may be repeated
    #[arg(long, env = "FENCEPOST_IDENTITY", value_name = "NAME=VALUE", value_parser = values::pair)]
    identity: Vec<(String, String)>,
    /// A state from which the move may start; may be repeated [default: any]
    #[arg(long, env = "FENCEPOST_FROM", value_name = "STATE")]
    from: Vec<String>,
    /// What has happened, as the machine of the kind calls it; instead of --to, --stay and --once
    #[arg(long, env = "FENCEPOST_EVENT", value_name = "EVENT")]
    event: Option<String>,
    #[command(flatten)]
    movement: MoveArgs,
    /// The reservation_id under which you work
    #[arg(long, env = "FENCEPOST_RESERVATION", value_name = "ID")]
    reservation: Option<String>,
    #[command(flatten)]
    result: ResultArgs,
    /// When the sender made the message, such as 2026-01-31T12:00:00Z; older than the retention, it is never run
    #[arg(long, env = "FENCEPOST_OPERATION_TIME", value_name = "TIME", value_parser = values::moment)]
    operation_time: Option<Timestamp>,
    /// Only tell what would come of it now; nothing is written
    #[arg(long, env = "FENCEPOST_VALIDATE_ONLY")]
    validate_only: bool,
    #[command(flatten)]
    session: SessionArgs,
}

/// What the message says. None of them: it has no content.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct ContentArgs {
    /// What the message says, a JSON text: TEXT, @FILE, or - for standard input
    #[arg(long, env = "FENCEPOST_JSON", value_name = "TEXT", value_parser = Source::parse)]
    json: Option<Source>,
    /// What the message says, any bytes: TEXT, @FILE, or - for standard input
    #[arg(long, env = "FENCEPOST_RAW", value_name = "TEXT", value_parser = Source::parse)]
    raw: Option<Source>,
    /// Your own digest of what the message says, 16 to 64 bytes
    #[arg(long, env = "FENCEPOST_DIGEST", value_name = "HEX", value_parser = values::hex)]
    digest: Option<Bytes>,
}

/// Where it leads: one of --to, --stay and --once.
#[derive(Debug, Args)]
struct MoveArgs {
    /// The state it leads to
    #[arg(long, env = "FENCEPOST_TO", value_name = "STATE")]
    to: Option<String>,
    /// Judge the state, and leave it as it is
    #[arg(long, env = "FENCEPOST_STAY")]
    stay: bool,
    /// Judge no state and change none: record the operation, once
    #[arg(long, env = "FENCEPOST_ONCE")]
    once: bool,
    /// The state that a resource without one is taken to be in
    #[arg(long, env = "FENCEPOST_INITIAL", value_name = "STATE")]
    initial: Option<String>,
    /// An identity value that begins with this move; may be repeated
    #[arg(long, env = "FENCEPOST_SET", value_name = "NAME=VALUE", value_parser = values::pair)]
    set: Vec<(String, String)>,
}

/// What to store and to replay. None of them: done and empty.
#[derive(Debug, Args)]
struct ResultArgs {
    /// Body of the result: TEXT, @FILE, or - for standard input
    #[arg(long, env = "FENCEPOST_RESULT", value_name = "TEXT", value_parser = Source::parse)]
    result: Option<Source>,
    /// Outward code of the result, such as an HTTP status
    #[arg(long, env = "FENCEPOST_RESULT_CODE", value_name = "N")]
    result_code: Option<i32>,
    /// Content type of the result
    #[arg(long, env = "FENCEPOST_RESULT_TYPE", value_name = "TYPE")]
    result_type: Option<String>,
    /// Header of the result; may be repeated
    #[arg(long, env = "FENCEPOST_RESULT_HEADER", value_name = "NAME:VALUE", value_parser = values::header)]
    result_header: Vec<Header>,
}

impl TransitionArgs {
    /// Asks and prints.
    pub(super) async fn run(self) -> Result<Exit, Trouble> {
        let form = self.session.printing.output;
        let connection = self.session.clone();
        let request = self.request()?;
        let session = Session::open(&connection).await?;
        let answer = session
            .answer(session.client().transition(session.ask(request)))
            .await?;
        output::answer(form, "TransitionResponse", &answer, |table| {
            if let Some(decision) = &answer.decision {
                table.decision(decision);
            }
        })?;
        Ok(exit(answer.decision.as_ref()))
    }

    fn request(self) -> Result<TransitionRequest, Trouble> {
        if self.content.reads_stdin() && self.result.result == Some(Source::Stdin) {
            return Err(Trouble::usage(
                "the content and --result both name standard input; give one of them as @FILE",
            ));
        }
        let intent = Intent {
            r#move: self.movement.read(self.event.as_deref())?,
            operation_id: self.operation,
            event: self.event.unwrap_or_default(),
            identity: values::unique("--identity", &self.identity)?,
            content: Some(self.content.read()?),
            from_states: self.from,
            operation_time: self.operation_time,
        };
        Ok(TransitionRequest {
            resource: Some(self.resource.into()),
            intent: Some(intent),
            reservation_id: self.reservation.unwrap_or_default(),
            result: self.result.read()?,
            validate_only: self.validate_only,
        })
    }
}

impl ContentArgs {
    fn reads_stdin(&self) -> bool {
        [&self.json, &self.raw].contains(&&Some(Source::Stdin))
    }

    fn read(self) -> Result<Content, Trouble> {
        if let Some(json) = self.json {
            return Ok(Content::Json(json.read()?));
        }
        if let Some(digest) = self.digest {
            return Ok(Content::Digest(digest));
        }
        let raw = self
            .raw
            .map_or_else(|| Ok(Bytes::new()), |raw| raw.read())?;
        Ok(Content::Raw(raw))
    }
}

impl MoveArgs {
    fn read(self, event: Option<&str>) -> Result<Option<Move>, Trouble> {
        if event.is_some() {
            let plain = self.to.is_none() && self.initial.is_none() && self.set.is_empty();
            if self.stay || self.once || !plain {
                return Err(Trouble::usage(
                    "--event excludes --to, --stay, --once, --initial and --set: the machine says where it leads, and \
                     --identity gives the values that it sets",
                ));
            }
            return Ok(None);
        }
        let said = [self.to.is_some(), self.stay, self.once];
        if said.into_iter().filter(|said| *said).count() > 1 {
            return Err(Trouble::usage(
                "--to, --stay and --once exclude each other; give one of them",
            ));
        }
        let goes = self.stay || self.to.is_some();
        if self.once {
            if self.initial.is_some() || !self.set.is_empty() {
                return Err(Trouble::usage(
                    "--once changes nothing, so --initial and --set cannot go with it; use --to or --stay",
                ));
            }
            return Ok(None);
        }
        if !goes {
            // A forgotten --to would use up the operation: the real move would then be taken for a repetition.
            return Err(Trouble::usage(
                "where does it lead? Give --event EVENT if the kind has a machine, else --to STATE, --stay (judge the state and leave it), or --once (judge no \
                 state; record the operation)",
            ));
        }
        Ok(Some(Move {
            to_state: self.to.unwrap_or_default(),
            initial_state: self.initial.unwrap_or_default(),
            sets: values::unique("--set", &self.set)?,
        }))
    }
}

impl ResultArgs {
    fn read(self) -> Result<Option<Stored>, Trouble> {
        let absent = self.result.is_none()
            && self.result_code.is_none()
            && self.result_type.is_none()
            && self.result_header.is_empty();
        if absent {
            return Ok(None);
        }
        Ok(Some(Stored {
            // The sidecar makes it; what this command sends is in memory of one machine.
            sha256: Bytes::new(),
            body: self
                .result
                .map_or_else(|| Ok(Bytes::new()), |body| body.read())?,
            code: self.result_code.unwrap_or_default(),
            content_type: self.result_type.unwrap_or_default(),
            headers: self.result_header,
        }))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

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
             --reservation r --result ok --result-code 200 --result-type text/plain --result-header A:b",
        )
        .unwrap();
        assert_eq!(asked.reservation_id, "r");
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
