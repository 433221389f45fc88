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
        table.row("counted since", start.to_string());
    }
    for count in &counts.counts {
        let name = match count.event.as_str() {
            "" => count.kind.clone(),
            event => format!("{} {event}", count.kind),
        };
        table.row("messages", format!("{name}: {}", verdicts(count)));
    }
    match &counts.other {
        Some(other) => {
            table.row("messages", format!("all others: {}", verdicts(other)));
        }
        None if counts.counts.is_empty() => {
            table.row("messages", "nothing was delivered yet");
        }
        None => {}
    }
    if counts.narrow_keys > 0 {
        let narrow = counts.narrow_keys;
        let said = format!(
            "{narrow} did the same again under a second operation id, so that one action may have run twice; its log names them"
        );
        table.row("narrow keys", said);
    }
    if let Some(waiting) = &counts.waiting {
        table.row("waiting now", waits(waiting));
        if waiting.missed > 0 {
            let missed = several(waiting.missed, "call");
            let said = format!("{missed} found none and did not wait");
            table.row("no place left", said);
        }
    }
    if let Some(holdings) = &counts.holdings {
        holds(table, holdings);
    }
}

fn waits(waiting: &Waiting) -> String {
    format!(
        "{}, for a busy resource or a result; {} of {} places for such calls taken",
        several(waiting.calls, "call"),
        waiting.places,
        waiting.places_max
    )
}

fn holds(table: &mut Table, holdings: &Holdings) {
    let Holdings { held, held_max, .. } = holdings;
    table.row(
        "held now",
        format!(
            "{} on Hold streams (`hold`, `exec`), of {held_max} at most",
            several(*held, "reservation")
        ),
    );
    let Holdings { due, late, .. } = holdings;
    let mut now = format!("{due} due or under way, {late} late");
    if holdings.strained {
        now.push_str(
            ": renewals are late, and no new reservation is granted before they have caught up",
        );
    }
    table.row("renewals now", now);
    let Holdings {
        renewed,
        failed,
        lost,
        ..
    } = holdings;
    table.row(
        "renewals so far",
        format!("{renewed} confirmed, {failed} failed and tried again"),
    );
    table.row(
        "lost so far",
        format!("{} while held", several(*lost, "reservation")),
    );
    if holdings.refused > 0 {
        let refused = several(holdings.refused, "grant");
        let said = format!("{refused} refused since the start, as renewals were late");
        table.row("not granted", said);
    }
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
        assert_eq!(
            lines,
            "messages  order: 3 deliveries = 1 APPLIED + 2 REPLAYED\n"
        );
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
            "messages         nothing was delivered yet\n\
             waiting now      1 call, for a busy resource or a result; 2 of 2048 places for such calls taken\n\
             held now         12 reservations on Hold streams (`hold`, `exec`), of 65536 at most\n\
             renewals now     2 due or under way, 0 late\n\
             renewals so far  40 confirmed, 0 failed and tried again\n\
             lost so far      0 reservations while held\n"
        );
        counts.waiting.as_mut().unwrap().missed = 3;
        let holdings = counts.holdings.as_mut().unwrap();
        (holdings.strained, holdings.refused) = (true, 1);
        let lines = lines(&counts);
        assert!(lines.contains("3 calls found none"), "{lines}");
        assert!(lines.contains("no new reservation is granted"), "{lines}");
        assert!(lines.contains("1 grant refused since the start"), "{lines}");
        for (label, said) in [
            ("no place left", "3 calls found none"),
            ("not granted", "1 grant refused"),
        ] {
            assert!(lines.contains(&format!("{label:15}  {said}")), "{lines}");
        }
    }

    #[test]
    fn since_when_is_told_first_and_what_has_no_row_of_its_own_after_the_rows() {
        let mut table = Table::default();
        let counts = GetCountsResponse {
            start_time: Some(prost_types::Timestamp::default()),
            other: Some(Count {
                deliveries: 1,
                ..Count::default()
            }),
            narrow_keys: 2,
            ..GetCountsResponse::default()
        };
        told(&mut table, &counts);
        let lines = table.render();
        let lines: Vec<&str> = lines.lines().collect();
        let [since, others, narrow] = lines[..] else {
            panic!("{lines:?}");
        };
        assert_eq!(since, "counted since  1970-01-01T00:00:00Z");
        assert!(
            others.starts_with("messages       all others: 1 delivery"),
            "{others}"
        );
        assert!(
            narrow.starts_with("narrow keys    2 did the same again"),
            "{narrow}"
        );
    }
}
