//! A machine as text: what each event says, and what becomes of it in each state.

use std::fmt::Write as _;

use humantime::format_duration;

use crate::domain::machine::{Disposition, Event, Machine, Otherwise, Refusal, State, WhileHeld};

/// Widest line of the table, in characters. States beyond it go into a table of their own below.
const WIDTH_MAX: usize = 120;
/// What stands between two columns.
const GAP: &str = "  ";
/// How the row of a resource that does not exist is called.
const ABSENT: &str = "(none yet)";

/// What each word of the table means.
const LEGEND: [(&str, &str); 7] = [
    ("→", "allowed, and moves there"),
    ("stays", "allowed, and leaves the state as it is"),
    (
        "held too",
        "also while somebody holds the resource; everything else waits for the holder",
    ),
    (
        "SUPERSEDED",
        "this resource has made the move already: acknowledged",
    ),
    (
        "SUPERSEDED/…",
        "made already or not: its history decides, and the values that the message sets",
    ),
    (
        "TOO_EARLY",
        "a state that allows it can still come: asked again later",
    ),
    ("REJECTED", "none can come: refused"),
];

/// Kind, version and hash.
pub(super) fn title(machine: &Machine) -> String {
    let definition = machine.definition();
    format!(
        "{} version {} ({})",
        definition.kind.value,
        definition.version.value,
        machine.hash()
    )
}

/// All of it.
pub(super) fn text(machine: &Machine) -> String {
    let definition = machine.definition();
    let mut text = title(machine);
    let forget = definition.forget.as_ref().map_or_else(
        || "for good".to_owned(),
        |forget| format!("for {}", format_duration(forget.value)),
    );
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "\noperations are replayable for {}; a final resource is kept {forget}\n",
        format_duration(definition.retention.value)
    );
    let names = definition
        .events
        .iter()
        .map(|event| event.name.value.as_str());
    let width = names.map(str::len).max().unwrap_or(0);
    for event in &definition.events {
        let said: Vec<String> = event
            .said()
            .into_iter()
            .map(|(key, value)| format!("{key} {value}"))
            .collect();
        let _ = writeln!(
            text,
            "{:width$}{GAP}{}",
            event.name.value.as_str(),
            said.join("; ")
        );
    }
    let table = table(machine, width);
    text.push_str(&table);
    text.push_str("\nThe key, its content and the identity are asked first; the table is what the state says then.\n");
    let width = LEGEND
        .map(|(word, _)| word.chars().count())
        .into_iter()
        .max();
    for (word, meaning) in LEGEND {
        let shown = word.trim_end_matches('…');
        if table.contains(shown) {
            let _ = writeln!(
                text,
                "{word:width$}{GAP}{meaning}",
                width = width.unwrap_or(0)
            );
        }
    }
    text
}

fn table(machine: &Machine, width: usize) -> String {
    let definition = machine.definition();
    let mut columns: Vec<Vec<String>> = vec![vec![ABSENT.to_owned()]];
    columns.extend(definition.states.iter().map(|state| vec![heading(state)]));
    for event in &definition.events {
        for (column, disposition) in columns.iter_mut().zip(machine.dispositions(event)) {
            column.push(cell(event, disposition));
        }
    }
    let names = definition
        .events
        .iter()
        .map(|event| event.name.value.to_string());
    let names: Vec<String> = std::iter::once(String::new()).chain(names).collect();
    let mut text = String::new();
    let mut rest = columns.as_slice();
    while !rest.is_empty() {
        let mut used = width;
        let fits = rest.iter().take_while(|column| {
            used += GAP.len() + widest(column);
            used <= WIDTH_MAX
        });
        // A single column wider than all is shown all the same.
        let (these, others) = rest.split_at(fits.count().max(1));
        rest = others;
        text.push('\n');
        for (row, name) in names.iter().enumerate() {
            let mut line = format!("{name:width$}");
            for column in these {
                let wide = widest(column);
                let _ = write!(
                    line,
                    "{GAP}{:wide$}",
                    column.get(row).map_or("", String::as_str)
                );
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    text
}

fn widest(column: &[String]) -> usize {
    let widths = column.iter().map(|cell| cell.chars().count());
    widths.max().unwrap_or(0)
}

fn heading(state: &State) -> String {
    let name = &state.name.value;
    if state.is_final {
        format!("{name} (final)")
    } else {
        name.to_string()
    }
}

fn cell(event: &Event, disposition: Disposition<'_>) -> String {
    match disposition {
        Disposition::Creates(to) | Disposition::Moves(to) => format!("→ {to}"),
        Disposition::Stays if event.while_held.value == WhileHeld::Allow => {
            "stays, held too".into()
        }
        Disposition::Stays => "stays".into(),
        Disposition::Said(said) => format!("{}, as said", verdict_of(said)),
        Disposition::Superseded => "SUPERSEDED".into(),
        Disposition::ByHistory(refusal) => format!("SUPERSEDED/{}", verdict(refusal)),
        Disposition::Refused(refusal) => verdict(refusal).into(),
    }
}

fn verdict(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::TooEarly => "TOO_EARLY",
        Refusal::Rejected => "REJECTED",
    }
}

fn verdict_of(said: Otherwise) -> &'static str {
    match said {
        Otherwise::Reject => verdict(Refusal::Rejected),
        Otherwise::TooEarly => verdict(Refusal::TooEarly),
        Otherwise::Supersede => "SUPERSEDED",
    }
}
