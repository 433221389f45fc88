//! `counts`: what became of the messages that a sidecar was given.

use clap::Args;

use super::admin::AdminArgs;
use super::exit::Exit;
use super::output;
use super::session::{PrintingArgs, with_timeout};
use super::table::{Table, verdict_name};
use super::trouble::Trouble;
use crate::proto::v1::{Count, GetCountsRequest, GetCountsResponse, Holdings, Waiting};

/// Tells what became of deliveries, and how much waits and is held.
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
    if let Some(waiting) = &counts.waiting {
        table.row("waiting", waits(waiting));
    }
    if let Some(holdings) = &counts.holdings {
        table.row("held", held(holdings));
        table.row("renewals", renewals(holdings));
    }
}

fn waits(waiting: &Waiting) -> String {
    let mut said = format!(
        "{}; {} of {} places taken",
        several(waiting.calls, "call"),
        waiting.places,
        waiting.places_max
    );
    if waiting.missed > 0 {
        let missed = several(waiting.missed, "call");
        said.push_str(&format!("; {missed} found none and did not wait"));
    }
    said
}

fn held(holdings: &Holdings) -> String {
    let Holdings { held, held_max, .. } = holdings;
    let mut said = format!("{} of {held_max}", several(*held, "reservation"));
    if holdings.strained {
        said.push_str(
            "; renewals are late, and no new reservation is granted before they have caught up",
        );
    }
    if holdings.refused > 0 {
        let refused = several(holdings.refused, "grant");
        said.push_str(&format!(
            "; {refused} refused since the start, as renewals were late"
        ));
    }
    said
}

fn renewals(holdings: &Holdings) -> String {
    let Holdings { due, late, .. } = holdings;
    let Holdings {
        renewed,
        failed,
        lost,
        ..
    } = holdings;
    format!(
        "{due} due, {late} late; {renewed} confirmed, {failed} failed since the start; {lost} lost"
    )
}

fn several(count: i64, of: &str) -> String {
    match count {
        1 => format!("1 {of}"),
        many => format!("{many} {of}s"),
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

    #[test]
    fn what_waits_and_is_held_is_told_beside_its_limit_and_trouble_only_if_there_was_any() {
        let mut counts = GetCountsResponse {
            waiting: Some(Waiting {
                calls: 1,
                followed: 2,
                places: 2,
                places_max: 2048,
                missed: 0,
            }),
            holdings: Some(Holdings {
                held: 12,
                held_max: 65_536,
                due: 2,
                renewed: 40,
                ..Holdings::default()
            }),
            ..GetCountsResponse::default()
        };
        let lines = |counts: &GetCountsResponse| {
            let mut table = Table::default();
            told(&mut table, counts);
            table.render()
        };
        assert_eq!(
            lines(&counts),
            "of        nothing was delivered yet\n\
             waiting   1 call; 2 of 2048 places taken\n\
             held      12 reservations of 65536\n\
             renewals  2 due, 0 late; 40 confirmed, 0 failed since the start; 0 lost\n"
        );
        counts.waiting.as_mut().unwrap().missed = 3;
        let holdings = counts.holdings.as_mut().unwrap();
        (holdings.strained, holdings.refused) = (true, 1);
        let lines = lines(&counts);
        assert!(lines.contains("3 calls found none"), "{lines}");
        assert!(lines.contains("no new reservation is granted"), "{lines}");
        assert!(lines.contains("1 grant refused since the start"), "{lines}");
    }
}
