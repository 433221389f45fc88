//! `digest`: what is kept of a content, made without a sidecar.

use clap::{ArgGroup, Args};
use serde_json::json;

use super::exit::Exit;
use super::output;
use super::session::Output;
use super::trouble::Trouble;
use super::values::Source;
use crate::domain::digest::{Content, Given};
use crate::domain::machine::DigestRule;

/// Makes a digest as the sidecar does (docs/digest.md).
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("content").required(true), group = ArgGroup::new("parts"))]
pub(super) struct DigestArgs {
    /// A JSON text: TEXT, @FILE, or - for standard input
    #[arg(long, env = "FENCEPOST_JSON", value_name = "TEXT", value_parser = Source::parse, group = "content")]
    json: Option<Source>,
    /// Any bytes: TEXT, @FILE, or - for standard input
    #[arg(long, env = "FENCEPOST_RAW", value_name = "TEXT", value_parser = Source::parse, group = "content")]
    raw: Option<Source>,
    /// A JSON Pointer to a part that counts, such as /amount; may be repeated [default: all counts]
    #[arg(
        long,
        env = "FENCEPOST_INCLUDE",
        value_name = "POINTER",
        group = "parts"
    )]
    include: Vec<String>,
    /// A JSON Pointer to a part that does not count; may be repeated
    #[arg(
        long,
        env = "FENCEPOST_EXCLUDE",
        value_name = "POINTER",
        group = "parts"
    )]
    exclude: Vec<String>,
    /// How to print the answer
    #[arg(
        short,
        long,
        env = "FENCEPOST_OUTPUT",
        default_value = "table",
        value_enum
    )]
    output: Output,
}

impl DigestArgs {
    /// Prints the scheme and the digest.
    pub(super) fn run(self) -> Result<Exit, Trouble> {
        let rule = match (self.include.is_empty(), self.exclude.is_empty()) {
            (false, _) => DigestRule::Include(self.include),
            (true, false) => DigestRule::Exclude(self.exclude),
            (true, true) => DigestRule::Whole,
        };
        let (name, content) = match (&self.json, &self.raw) {
            (Some(json), _) => {
                let text = json.read()?;
                ("--json", Content::read(Given::Json(&text), &rule))
            }
            (None, Some(raw)) => {
                let bytes = raw.read()?;
                ("--raw", Content::read(Given::Raw(&bytes), &rule))
            }
            (None, None) => return Err(Trouble::usage("give --json or --raw")),
        };
        let digest = content
            .map_err(|invalid| Trouble::invalid(format!("{name} {invalid}")))?
            .digest;
        let scheme = digest.scheme();
        let hex: String = digest
            .bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        output::write(&match self.output {
            Output::Table => format!("{scheme} {hex}\n"),
            Output::Json => {
                let code = scheme.code();
                let name = scheme.to_string();
                format!(
                    "{}\n",
                    json!({"scheme": name, "schemeNumber": code, "digest": hex})
                )
            }
        })?;
        Ok(Exit::Good)
    }
}
