//! Machine files: what is taken, what is refused and where, and what follows from it.
#![allow(clippy::as_conversions, clippy::wildcard_enum_match_arm)]

mod cases;
mod dispositions;
mod lint;
mod properties;
mod reading;
mod versions;

use super::{Finding, Machine, Place};

/// A sound machine that the tests change a part of.
const BASE: &str = "\
kind: parcel
version: 1
retention: 1h
states: { a: {}, b: {}, z: { final: true } }
events:
  make: { creates: a, sets: [round] }
  go: { from: [a], to: b, matches: [round] }
  end: { from: [b], to: z, matches: [round] }
";

/// Where something is expected to be found in a text.
const MARK: char = '§';

/// The base with one part exchanged.
fn changed(part: &str, by: &str) -> String {
    assert!(BASE.contains(part), "{part}");
    BASE.replacen(part, by, 1)
}

/// The text without its mark, and the place of the mark.
fn unmarked(text: &str) -> (String, Place) {
    let (before, after) = text.split_once(MARK).expect("a mark");
    let last = before.rsplit('\n').next().unwrap_or_default();
    let place = Place {
        line: before.matches('\n').count() + 1,
        column: last.chars().count() + 1,
    };
    (format!("{before}{after}"), place)
}

fn findings(text: &str) -> Vec<Finding> {
    Machine::read(text.as_bytes()).findings
}

fn machine(text: &str) -> Machine {
    let reading = Machine::read(text.as_bytes());
    let told: Vec<String> = reading.findings.iter().map(Finding::to_string).collect();
    reading.machine.unwrap_or_else(|| panic!("{told:#?}"))
}
