//! `counts`: what became of the messages that a sidecar was given.

use clap::Args;

use super::admin::AdminArgs;
use super::exit::Exit;
use super::output;
use super::session::{PrintingArgs, with_timeout};
use super::table::{Table, verdict_name};
use super::trouble::Trouble;
use crate::proto::v1::{Count, GetCountsRequest, GetCountsResponse};

/// Tells what became of deliveries.
#[derive(Debug, Args)]
pub(super) struct CountsArgs {
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    printing: PrintingArgs,
}

impl CountsArgs {
    /// Asks and prints.
    pub(super) async fn run(self) -> Result<Exit, Trouble> {
        let place = self.admin.place();
        let mut client = self.admin.connect().await?;
        let counts = client
            .get_counts(with_timeout(GetCountsRequest {}, self.printing.timeout))
            .await
            .map_err(|status| Trouble::from_status(&place, &status))?
            .into_inner();
        output::answer(
            self.printing.output,
            "GetCountsResponse",
            &counts,
            |table| told(table, &counts),
        )?;
        Ok(Exit::Good)
    }
}

fn told(table: &mut Table, counts: &GetCountsResponse) {
    if let Some(start) = &counts.start_time {
        table.row("since", start.to_string());
    }
    for count in &counts.counts {
        let name = match count.event.as_str() {
            "" => count.kind.clone(),
            event => format!("{} {event}", count.kind),
        };
        table.row("of", format!("{name}: {}", verdicts(count)));
    }
    match &counts.other {
        Some(other) => {
            table.row("other", verdicts(other));
        }
        None if counts.counts.is_empty() => {
            table.row("of", "nothing was delivered yet");
        }
        None => {}
    }
    if counts.narrow_keys > 0 {
        let narrow = counts.narrow_keys;
        let said =
            format!("{narrow} did the same again under a second operation id; its log names them");
        table.row("narrow keys", said);
    }
}

fn verdicts(count: &Count) -> String {
    let each: Vec<String> = count
        .verdicts
        .iter()
        .map(|given| format!("{} {}", given.count, verdict_name(given.verdict())))
        .collect();
    let deliveries = match count.deliveries {
        1 => "1 delivery".to_owned(),
        many => format!("{many} deliveries"),
    };
    format!("{deliveries} = {}", each.join(" + "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::{Verdict, VerdictCount};

    #[test]
    fn a_row_shows_the_sum_and_what_it_is_made_of() {
        let given = |verdict: Verdict, count| VerdictCount {
            verdict: verdict.into(),
            count,
        };
        let count = Count {
            kind: "order".to_owned(),
            event: String::new(),
            deliveries: 3,
            verdicts: vec![given(Verdict::Applied, 1), given(Verdict::Replayed, 2)],
        };
        assert_eq!(verdicts(&count), "3 deliveries = 1 APPLIED + 2 REPLAYED");
        let mut table = Table::default();
        let counts = GetCountsResponse {
            counts: vec![count],
            ..GetCountsResponse::default()
        };
        told(&mut table, &counts);
        let lines = table.render();
        assert_eq!(lines, "of  order: 3 deliveries = 1 APPLIED + 2 REPLAYED\n");
    }
}
