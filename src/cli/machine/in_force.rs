//! `machine apply`, `list`, `get` and `history`: what is in force, over the sidecar's admin socket.

use std::path::PathBuf;

use clap::Args;
use tonic::transport::Channel;
use tonic::{Response, Status};

use super::super::admin::AdminArgs;
use super::super::exit::Exit;
use super::super::session::{Output, PrintingArgs, with_timeout};
use super::super::trouble::{Trouble, plain};
use super::super::{json, output};
use super::Checked;
use crate::proto::v1::operator_service_client::OperatorServiceClient;
use crate::proto::v1::{
    ApplyMachineRequest, ApplyMachineResponse, GetMachineRequest, ListMachineVersionsRequest,
    ListMachinesRequest, Machine, MachineFinding, MachineOutcome,
};

/// Machines asked for at a time: the largest page there is.
const PAGE: i32 = 200;

/// Which sidecar is asked, and how its answer is shown.
#[derive(Debug, Args)]
struct AskingArgs {
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    printing: PrintingArgs,
}

/// Files to put in force.
#[derive(Debug, Args)]
pub(in crate::cli) struct ApplyArgs {
    /// Machine files, or directories whose *.yaml and *.yml files are meant
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    asking: AskingArgs,
}

/// Nothing but the sidecar.
#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {
    #[command(flatten)]
    asking: AskingArgs,
}

/// One kind.
#[derive(Debug, Args)]
pub(in crate::cli) struct HistoryArgs {
    /// Kind of the resources, such as `order`
    kind: String,
    #[command(flatten)]
    asking: AskingArgs,
}

/// One machine.
#[derive(Debug, Args)]
pub(in crate::cli) struct GetArgs {
    /// Kind of the resources, such as `order`
    kind: String,
    /// A version that is or was in force [default: the one in force]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    version: Option<i32>,
    #[command(flatten)]
    asking: AskingArgs,
}

/// One connection to an admin socket.
struct Operator {
    client: OperatorServiceClient<Channel>,
    place: String,
}

impl Operator {
    fn answer<T>(&self, answered: Result<Response<T>, Status>) -> Result<T, Trouble> {
        answered
            .map(Response::into_inner)
            .map_err(|status| Trouble::from_status(&self.place, &status))
    }
}

impl AskingArgs {
    async fn open(&self) -> Result<Operator, Trouble> {
        Ok(Operator {
            client: self.admin.connect().await?,
            place: self.admin.place(),
        })
    }
}

impl ApplyArgs {
    pub(super) async fn run(&self) -> Result<Exit, Trouble> {
        let Checked { said, files, sound } = super::check(&self.paths)?;
        if !sound {
            // What is wrong here would be wrong there, and none of them is applied without the others.
            output::say(&said);
            return Ok(Exit::Invalid);
        }
        let mut operator = self.asking.open().await?;
        let mut exit = Exit::Good;
        for file in files {
            let request = ApplyMachineRequest {
                source: file.source.clone(),
            };
            let timeout = self.asking.printing.timeout;
            let answered = operator
                .client
                .apply_machine(with_timeout(request, timeout));
            let answered = answered.await;
            let answer = operator.answer(answered)?;
            for finding in &answer.findings {
                output::say(&format!("{}\n", line(&file.name, finding)));
            }
            if answer.outcome() == MachineOutcome::Refused {
                exit = Exit::Invalid;
            }
            output::write(&match self.asking.printing.output {
                Output::Json => json::line("ApplyMachineResponse", &answer)?,
                Output::Table => format!("{}: {}\n", file.name, told(&answer)),
            })?;
        }
        Ok(exit)
    }
}

fn told(answer: &ApplyMachineResponse) -> String {
    let machine = answer.machine.as_ref().map(title).unwrap_or_default();
    match answer.outcome() {
        MachineOutcome::Installed => format!("in force now: {machine}"),
        MachineOutcome::Same => format!("in force already: {machine}"),
        MachineOutcome::Lower => format!("IGNORED, a higher version is in force: {machine}"),
        MachineOutcome::Refused | MachineOutcome::Unspecified => "refused".to_owned(),
    }
}

fn line(name: &str, finding: &MachineFinding) -> String {
    let severity = if finding.error { "error" } else { "warning" };
    plain(&format!(
        "{name}:{}:{}: {severity}[{}]: {}; fix: {}",
        finding.line, finding.column, finding.rule, finding.what, finding.fix
    ))
}

fn title(machine: &Machine) -> String {
    let hash = machine.hash.get(..12).unwrap_or(&machine.hash);
    plain(&format!(
        "{} version {} ({hash})",
        machine.kind, machine.version
    ))
}

impl ListArgs {
    pub(super) async fn run(&self) -> Result<Exit, Trouble> {
        let mut operator = self.asking.open().await?;
        let mut listing = Listing::default();
        while let Some(page_token) = listing.next(&operator)? {
            let request = ListMachinesRequest {
                page_size: PAGE,
                page_token,
            };
            let request = with_timeout(request, self.asking.printing.timeout);
            let answered = operator.client.list_machines(request).await;
            let page = operator.answer(answered)?;
            listing.show(&self.asking, &page.machines, page.next_page_token)?;
        }
        listing.end(&self.asking, "no machine is in force")
    }
}

impl HistoryArgs {
    pub(super) async fn run(&self) -> Result<Exit, Trouble> {
        let mut operator = self.asking.open().await?;
        let mut listing = Listing::default();
        while let Some(page_token) = listing.next(&operator)? {
            let request = ListMachineVersionsRequest {
                kind: self.kind.clone(),
                page_size: PAGE,
                page_token,
            };
            let request = with_timeout(request, self.asking.printing.timeout);
            let answered = operator.client.list_machine_versions(request).await;
            let page = operator.answer(answered)?;
            listing.show(&self.asking, &page.machines, page.next_page_token)?;
        }
        listing.end(&self.asking, "no machine was ever in force for this kind")
    }
}

/// A list that is printed page by page.
#[derive(Debug, Default)]
struct Listing {
    /// The token of the page before, and of the next. Empty: the first page. `None`: there is no such one.
    before: Option<String>,
    next: Option<String>,
    listed: usize,
}

impl Listing {
    /// The token of the next page, if there is one.
    fn next(&mut self, operator: &Operator) -> Result<Option<String>, Trouble> {
        if self.before.is_none() {
            self.before = Some(String::new());
            return Ok(self.before.clone());
        }
        let next = self.next.take();
        if next.is_some() && next == self.before {
            let why = format!("{} answers the same page for ever", operator.place);
            return Err(Trouble::failed(why));
        }
        self.before.clone_from(&next);
        Ok(next)
    }

    fn show(
        &mut self,
        asking: &AskingArgs,
        machines: &[Machine],
        next: String,
    ) -> Result<(), Trouble> {
        self.listed += machines.len();
        self.next = (!next.is_empty()).then_some(next);
        let mut text = String::new();
        for machine in machines {
            match asking.printing.output {
                Output::Json => text.push_str(&json::line("Machine", machine)?),
                Output::Table => {
                    let time = machine.create_time.as_ref();
                    let time = time.map(|time| format!(", applied {time}"));
                    text.push_str(&format!("{}{}\n", title(machine), time.unwrap_or_default()));
                }
            }
        }
        output::write(&text)
    }

    fn end(&self, asking: &AskingArgs, none: &str) -> Result<Exit, Trouble> {
        if self.listed == 0 && asking.printing.output == Output::Table {
            output::write(&format!("{none}\n"))?;
        }
        Ok(Exit::Good)
    }
}

impl GetArgs {
    pub(super) async fn run(&self) -> Result<Exit, Trouble> {
        let mut operator = self.asking.open().await?;
        let request = GetMachineRequest {
            kind: self.kind.clone(),
            version: self.version.unwrap_or_default(),
        };
        let request = with_timeout(request, self.asking.printing.timeout);
        let answered = operator.client.get_machine(request).await;
        let answer = operator.answer(answered)?;
        let machine = answer.machine.unwrap_or_default();
        match self.asking.printing.output {
            Output::Json => output::write(&json::line("Machine", &machine)?)?,
            // As it was applied, comments and all, so that it can be shown, drawn, compared and applied again.
            Output::Table => output::file(&machine.source)?,
        }
        Ok(Exit::Good)
    }
}
