//! `explain`: the story of a resource, over the sidecar's admin socket.

use clap::Args;

use super::admin::AdminArgs;
use super::exit::Exit;
use super::session::{Output, PrintingArgs, with_timeout};
use super::table::bare;
use super::trouble::{Trouble, plain};
use super::{ResourceArgs, json, output};
use crate::proto::v1::{ExplainResourceRequest, ExplainResourceResponse};

/// Whose story?
#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    resource: ResourceArgs,
    /// Tells also why the last request for this operation was answered as it was
    #[arg(value_name = "OPERATION")]
    operation_id: Option<String>,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    printing: PrintingArgs,
}

impl ExplainArgs {
    /// Asks and prints.
    pub(super) async fn run(self) -> Result<Exit, Trouble> {
        let mut client = self.admin.connect().await?;
        let request = ExplainResourceRequest {
            resource: Some(self.resource.named()?),
            operation_id: self.operation_id.unwrap_or_default(),
        };
        let answer = client
            .explain_resource(with_timeout(request, self.printing.timeout))
            .await
            .map_err(|status| Trouble::from_status(&self.admin.place(), &status))?
            .into_inner();
        output::write(&match self.printing.output {
            Output::Json => json::line("ExplainResourceResponse", &answer)?,
            Output::Table => told(&answer),
        })?;
        Ok(if answer.known {
            Exit::Good
        } else {
            Exit::NeverSeen
        })
    }
}

/// One sentence a line, each topic named where it begins.
fn told(answer: &ExplainResourceResponse) -> String {
    let topics = answer.sentences.iter();
    let topics =
        topics.map(|sentence| bare(sentence.topic().as_str_name(), "TOPIC_").to_lowercase());
    let topics: Vec<String> = topics.collect();
    let width = topics.iter().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    let mut before = "";
    for (topic, sentence) in topics.iter().zip(&answer.sentences) {
        let shown = if topic == before { "" } else { topic.as_str() };
        text.push_str(&format!("{shown:width$}  {}\n", plain(&sentence.text)));
        before = topic;
    }
    text
}
