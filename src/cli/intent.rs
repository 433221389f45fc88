//! The flags that say what a message asks for, and what its effect came to.

use bytes::Bytes;
use clap::Args;
use prost_types::Timestamp;

use super::trouble::Trouble;
use super::values::{self, Source};
use crate::proto::v1::{Header, Intent, Move, Result as Stored, intent::Content};

/// What a message asks for.
#[derive(Debug, Args)]
pub(super) struct IntentArgs {
    /// The sender's stable key of this business action, equal in every resend
    #[arg(long, env = "FENCEPOST_OPERATION", value_name = "KEY")]
    operation: Option<String>,
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
    /// When the sender made the message, such as 2026-01-31T12:00:00Z; older than the retention, it is never run
    #[arg(long, env = "FENCEPOST_OPERATION_TIME", value_name = "TIME", value_parser = values::moment)]
    operation_time: Option<Timestamp>,
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
pub(super) struct ResultArgs {
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

impl IntentArgs {
    /// Whether the content comes from standard input.
    pub(super) fn reads_stdin(&self) -> bool {
        self.content.reads_stdin()
    }

    /// `None`: none of the flags was given.
    pub(super) fn read(self, rerun_if_interrupted: bool) -> Result<Option<Intent>, Trouble> {
        let Some(operation_id) = self.operation else {
            let said = self.content.is_given()
                || self.movement.is_given()
                || self.event.is_some()
                || !self.identity.is_empty()
                || !self.from.is_empty()
                || self.operation_time.is_some()
                || rerun_if_interrupted;
            return if said {
                Err(Trouble::usage(
                    "which operation is meant? Give its key with --operation",
                ))
            } else {
                Ok(None)
            };
        };
        Ok(Some(Intent {
            operation_id,
            identity: values::unique("--identity", &self.identity)?,
            content: Some(self.content.read()?),
            from_states: self.from,
            r#move: self.movement.read(self.event.as_deref())?,
            event: self.event.unwrap_or_default(),
            rerun_if_interrupted,
            operation_time: self.operation_time,
        }))
    }
}

impl ContentArgs {
    fn is_given(&self) -> bool {
        self.json.is_some() || self.raw.is_some() || self.digest.is_some()
    }

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
    fn is_given(&self) -> bool {
        let named = self.to.is_some() || self.initial.is_some() || !self.set.is_empty();
        named || self.stay || self.once
    }

    fn read(self, event: Option<&str>) -> Result<Option<Move>, Trouble> {
        if event.is_some() {
            if self.is_given() {
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
    /// Whether the body comes from standard input.
    pub(super) fn reads_stdin(&self) -> bool {
        self.result == Some(Source::Stdin)
    }

    /// `None`: none of the flags was given.
    pub(super) fn read(self) -> Result<Option<Stored>, Trouble> {
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
