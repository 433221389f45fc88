//! `incidents`: what a person must judge.

use clap::Args;

use super::admin::AdminArgs;
use super::exit::Exit;
use super::session::{Output, PrintingArgs, with_timeout};
use super::table::Table;
use super::trouble::Trouble;
use super::{json, output};
use crate::proto::v1::{Incident, ListIncidentsRequest};

/// Incidents asked for at a time: the largest page there is.
const PAGE: i32 = 200;

/// Lists incidents.
#[derive(Debug, Args)]
pub(super) struct IncidentsArgs {
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    printing: PrintingArgs,
}

impl IncidentsArgs {
    /// Prints every page as it comes.
    pub(super) async fn run(self) -> Result<Exit, Trouble> {
        let (mut client, place) = self.admin.open().await?;
        let mut page_token = String::new();
        let mut listed: usize = 0;
        loop {
            let request = ListIncidentsRequest {
                page_size: PAGE,
                page_token: page_token.clone(),
            };
            let page = client
                .list_incidents(with_timeout(request, self.printing.timeout))
                .await
                .map_err(|status| Trouble::from_status(&place, &status))?
                .into_inner();
            listed += page.incidents.len();
            output::write(&render(self.printing.output, &page.incidents)?)?;
            if page.next_page_token.is_empty() {
                break;
            }
            if page.next_page_token == page_token {
                return Err(Trouble::failed(format!(
                    "{place} answers the same page for ever"
                )));
            }
            page_token = page.next_page_token;
        }
        if listed == 0 && self.printing.output == Output::Table {
            output::write("no incidents\n")?;
        }
        Ok(Exit::Good)
    }
}

fn render(form: Output, incidents: &[Incident]) -> Result<String, Trouble> {
    let mut text = String::new();
    for incident in incidents {
        match form {
            Output::Json => text.push_str(&json::line("Incident", incident)?),
            Output::Table => {
                text.push_str(&Table::default().incident(incident).render());
                text.push('\n');
            }
        }
    }
    Ok(text)
}
