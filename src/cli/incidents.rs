//! `incidents`: what a person must judge.

use clap::{Args, Subcommand};
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::admin::{AdminArgs, author};
use super::exit::{self, Exit};
use super::incident_rows::how_closed;
use super::session::{CallTimeout, Output, PrintingArgs, with_timeout};
use super::table::Table;
use super::trouble::{Trouble, plain};
use super::{json, output};
use crate::proto::v1::operator_service_client::OperatorServiceClient;
use crate::proto::v1::{CloseIncidentRequest, GetIncidentRequest, Incident, ListIncidentsRequest};

/// Incidents asked for at a time: the largest page there is.
const PAGE: i32 = 200;

/// Lists, shows and closes incidents; without a subcommand it lists.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct IncidentsArgs {
    #[command(subcommand)]
    command: Option<IncidentsCommand>,
    #[command(flatten)]
    list: ListArgs,
}

/// What to do with incidents.
#[derive(Debug, Subcommand)]
enum IncidentsCommand {
    /// List them
    #[command(after_help = exit::of_a_question(&[]))]
    List(ListArgs),
    /// Show one with all of its evidence
    #[command(after_help = exit::of_a_question(&[13]))]
    Show(ShowArgs),
    /// Note that a person has judged one, and how
    #[command(after_help = exit::of_a_question(&[13]))]
    Close(CloseArgs),
}

/// Which incidents to list.
#[derive(Debug, Args)]
struct ListArgs {
    /// Only those of resources of this kind
    #[arg(long, env = "FENCEPOST_KIND", value_name = "KIND")]
    kind: Option<String>,
    /// Only those that wait for a person
    #[arg(long, env = "FENCEPOST_OPEN")]
    open: bool,
    #[command(flatten)]
    reach: ReachArgs,
}

/// Which incident to show.
#[derive(Debug, Args)]
struct ShowArgs {
    /// The incident, as an answer or the list names it
    id: String,
    #[command(flatten)]
    reach: ReachArgs,
}

/// Which incident to close, and why.
#[derive(Debug, Args)]
struct CloseArgs {
    /// The incident, as an answer or the list names it
    id: String,
    /// What was found and done
    #[arg(long, env = "FENCEPOST_REASON", value_name = "TEXT")]
    reason: String,
    /// Who closes it [default: $USER, else `admin socket`]
    #[arg(long, env = "FENCEPOST_BY", value_name = "NAME")]
    by: Option<String>,
    #[command(flatten)]
    reach: ReachArgs,
}

/// Where operators are answered, and how to print.
#[derive(Debug, Args)]
struct ReachArgs {
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    printing: PrintingArgs,
}

impl IncidentsArgs {
    /// Does what was asked.
    pub(super) async fn run(self) -> Result<Exit, Trouble> {
        match self.command {
            None => self.list.run().await,
            Some(IncidentsCommand::List(args)) => args.run().await,
            Some(IncidentsCommand::Show(args)) => args.run().await,
            Some(IncidentsCommand::Close(args)) => args.run().await,
        }
    }
}

impl ListArgs {
    /// Prints every page as it comes.
    async fn run(self) -> Result<Exit, Trouble> {
        let mut operator = Operator::reach(&self.reach).await?;
        let form = self.reach.printing.output;
        let mut page_token = String::new();
        let mut listed: usize = 0;
        loop {
            let request = ListIncidentsRequest {
                page_size: PAGE,
                page_token: page_token.clone(),
                kind: self.kind.clone().unwrap_or_default(),
                open_only: self.open,
            };
            let request = with_timeout(request, operator.timeout);
            let page = operator.client.list_incidents(request).await;
            let page = page
                .map_err(|status| operator.trouble(&status))?
                .into_inner();
            listed += page.incidents.len();
            output::write(&render(form, &page.incidents)?)?;
            if page.next_page_token.is_empty() {
                break;
            }
            if page.next_page_token == page_token {
                return Err(Trouble::failed(format!(
                    "{} answers the same page for ever",
                    operator.place
                )));
            }
            page_token = page.next_page_token;
        }
        if listed == 0 && form == Output::Table {
            output::write("no incidents\n")?;
        }
        Ok(Exit::Good)
    }
}

impl ShowArgs {
    async fn run(self) -> Result<Exit, Trouble> {
        let mut operator = Operator::reach(&self.reach).await?;
        let mut shown: Option<Incident> = None;
        loop {
            let seen = shown.as_ref().map_or(0, |incident| incident.evidence.len());
            let request = GetIncidentRequest {
                incident_id: self.id.clone(),
                skip_evidence: i32::try_from(seen).unwrap_or(i32::MAX),
            };
            let request = with_timeout(request, operator.timeout);
            let answer = operator.client.get_incident(request).await;
            let found = answer
                .map_err(|status| operator.trouble(&status))?
                .into_inner()
                .incident
                .unwrap_or_default();
            let more = !found.evidence.is_empty();
            let incident = match shown.take() {
                None => found,
                Some(mut before) => {
                    before.evidence.extend(found.evidence);
                    before
                }
            };
            let have = i64::try_from(incident.evidence.len()).unwrap_or(i64::MAX);
            let complete = !more || have >= incident.evidence_count;
            shown = Some(incident);
            if complete {
                break;
            }
        }
        let incident = shown.unwrap_or_default();
        match self.reach.printing.output {
            Output::Json => output::write(&json::line("Incident", &incident)?)?,
            Output::Table => {
                let mut table = Table::default();
                table.incident(&incident);
                for evidence in &incident.evidence {
                    table.evidence(evidence);
                }
                output::write(&table.render())?;
            }
        }
        Ok(Exit::Good)
    }
}

impl CloseArgs {
    async fn run(self) -> Result<Exit, Trouble> {
        let mut operator = Operator::reach(&self.reach).await?;
        let request = CloseIncidentRequest {
            incident_id: self.id,
            reason: self.reason,
            closed_by: author(self.by),
        };
        let request = with_timeout(request, operator.timeout);
        let answer = operator.client.close_incident(request).await;
        let closed = answer
            .map_err(|status| operator.trouble(&status))?
            .into_inner();
        // The incident alone, as the list and `show` print it.
        let incident = closed.incident.unwrap_or_default();
        let fill = |table: &mut Table| {
            table.incident(&incident);
        };
        output::answer(self.reach.printing.output, "Incident", &incident, fill)?;
        if closed.closed_before {
            let how = how_closed(&incident).unwrap_or_default();
            let told = format!(
                "it was closed before, {how}; that stays, and what was given now is not kept"
            );
            output::say(&format!(
                "fencepost: {}
",
                plain(&told)
            ));
        }
        Ok(Exit::Good)
    }
}

/// The operator's side of a sidecar.
struct Operator {
    client: OperatorServiceClient<Channel>,
    place: String,
    timeout: CallTimeout,
}

impl Operator {
    async fn reach(args: &ReachArgs) -> Result<Self, Trouble> {
        Ok(Self {
            client: args.admin.connect().await?,
            place: args.admin.place(),
            timeout: args.printing.timeout,
        })
    }

    fn trouble(&self, status: &Status) -> Trouble {
        let mut trouble = Trouble::from_status(&self.place, status);
        if status.code() == Code::NotFound {
            trouble.exit = Exit::NeverSeen;
        }
        trouble
    }
}

fn render(form: Output, incidents: &[Incident]) -> Result<String, Trouble> {
    let mut text = String::new();
    for incident in incidents {
        match form {
            Output::Json => text.push_str(&json::line("Incident", incident)?),
            Output::Table => {
                let mut table = Table::default();
                table.incident(incident);
                // `show` tells all; a list would be flooded.
                if let Some(first) = incident.evidence.first() {
                    table.evidence(first);
                }
                text.push_str(&table.render());
                text.push('\n');
            }
        }
    }
    Ok(text)
}
