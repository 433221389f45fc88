//! Every rule finds what it is for, at its place, and nothing in a sound file.

use std::collections::BTreeSet;

use super::super::{Finding, Machine, Rule, Severity};
use super::cases::{CASES, GO, STATES};
use super::{BASE, changed, findings, unmarked};
use Severity::{Error, Warning};

/// The one finding that a change of the base gives, at the mark; else what is there instead.
fn found(rule: Rule, severity: Severity, part: &str, by: &str) -> Result<Finding, String> {
    let (text, place) = unmarked(&changed(part, by));
    let mut found = findings(&text);
    let told: Vec<String> = found.iter().map(Finding::to_string).collect();
    let wrong = |what: &str| Err(format!("{what}: {by}\n{told:#?}"));
    let Some(finding) = found.pop().filter(|_| found.is_empty()) else {
        return wrong("not one finding");
    };
    if (finding.rule, finding.severity, finding.place) != (rule, severity, place) {
        return wrong(&format!("not {severity}[{rule}] at {place}"));
    }
    if Machine::read(text.as_bytes()).machine.is_some() != (severity == Warning) {
        return wrong("an error forbids the machine, a warning does not");
    }
    if finding.fix.len() < 6 {
        return wrong("no fix in words");
    }
    Ok(finding)
}

fn one(rule: Rule, severity: Severity, part: &str, by: &str) -> Finding {
    found(rule, severity, part, by).unwrap()
}

#[test]
fn every_rule_finds_what_it_is_for_at_its_place() {
    let wrong: Vec<String> = CASES
        .iter()
        .filter_map(|(rule, severity, part, by)| found(*rule, *severity, part, by).err())
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_rule_is_without_a_case() {
    let mut shown: BTreeSet<Rule> = CASES.iter().map(|(rule, ..)| *rule).collect();
    // Sizes are tried with their limits, versions with two files.
    shown.extend([Rule::Limit, Rule::Version, Rule::Unmapped]);
    let all: BTreeSet<Rule> = Rule::ALL.iter().copied().collect();
    assert_eq!(shown, all);
}

#[test]
fn a_sound_file_has_no_findings() {
    assert_eq!(findings(BASE), []);
    for file in ["order", "seat"] {
        let path = format!("{}/machines/{file}.yaml", env!("CARGO_MANIFEST_DIR"));
        assert_eq!(
            findings(&std::fs::read_to_string(path).unwrap()),
            [],
            "{file}"
        );
    }
}

#[test]
fn a_finding_says_what_where_and_what_to_do_on_one_line() {
    let line = one(
        Rule::UnknownKey,
        Error,
        GO,
        "go: { from: [a], §matchs: [round] }",
    )
    .to_string();
    assert_eq!(
        line,
        "7:20: error[unknown-key]: event go has no key \"matchs\"; fix: did you mean `matches`?"
    );
    let line = one(Rule::UnknownName, Error, GO, "go: { from: [a], to: §bb }").to_string();
    assert!(line.ends_with("fix: did you mean `b`?"), "{line}");
    let line = one(Rule::Duration, Error, "retention: 1h", "retention: §96").to_string();
    assert!(
        line.ends_with("fix: write 96s, 96m or 96h, whichever is meant"),
        "{line}"
    );
}

#[test]
fn all_that_is_wrong_is_told_at_once_in_the_order_of_the_file() {
    let found = findings(
        "kind: a b\nversion: x\nretention: 5\nstates: { a: { fnal: true } }\nevents: { e: { from: [q], wile_held: allow } }\n",
    );
    let rules: Vec<(usize, Rule)> = found.iter().map(|f| (f.place.line, f.rule)).collect();
    assert_eq!(
        rules,
        [
            (1, Rule::Value),
            (2, Rule::Value),
            (3, Rule::Duration),
            (4, Rule::UnknownKey),
            (5, Rule::UnknownName),
            (5, Rule::UnknownKey),
        ]
    );
}

#[test]
fn what_does_not_rest_on_an_error_is_told_beside_it() {
    let rules = |text: &str| -> Vec<(usize, Rule)> {
        let found = findings(text);
        found.iter().map(|f| (f.place.line, f.rule)).collect()
    };
    // What is wrong above says nothing of the ways through the machine.
    let text = BASE.replace(
        "kind: parcel\nversion: 1\nretention: 1h",
        "version: x\nretention: 5",
    );
    let text = text.replace("z: { final: true }", "z: { final: true }, lost: {}");
    let all = [
        (1, Rule::Missing),
        (1, Rule::Value),
        (2, Rule::Duration),
        (3, Rule::Unreachable),
        (3, Rule::DeadEnd),
    ];
    assert_eq!(rules(&text), all);
    assert!(Machine::read(text.as_bytes()).machine.is_none());
    // A state that is not declared leaves open where the moves lead, and nothing else.
    let text = changed("creates: a", "creates: x").replace(
        "[b], to: z, matches: [round]",
        "[z], to: a, matches: [rund]",
    ) + "  held: { from: [a], to: b, while_held: allow }\n";
    let all = [
        (6, Rule::UnknownName),
        (8, Rule::FinalExit),
        (8, Rule::NeverSet),
        (9, Rule::WhileHeld),
    ];
    assert_eq!(rules(&text), all);
    // What could not be read of an event leaves open who sets what.
    let text = changed("sets: [round]", "sets: round")
        + "  held: { from: [a], to: b, while_held: allow }\n";
    assert_eq!(rules(&text), [(6, Rule::Value), (9, Rule::WhileHeld)]);
}

#[test]
fn the_ways_are_followed_unless_what_they_are_made_of_could_not_be_read() {
    let followed = |part: &str, by: &str| {
        assert_ne!(findings(&changed(part, by)), [], "{by}");
        // No way leads there, and only who follows them all knows.
        let text = changed(part, by).replace(" z: {", " lost: { final: true }, z: {");
        let found = findings(&text);
        found.iter().any(|f| f.rule == Rule::Unreachable)
    };
    let retention = "retention: 1h";
    let beside = [
        ("kind: parcel", "kind: a b"),
        (retention, "retention: 1h\nforget: 5"),
        (retention, "retention: 1h\nmap: 5"),
        (retention, "retention: 1h\nmap: { states: { old: q } }"),
        (GO, "go: { from: [a], to: b }\n  Go: { from: [a] }"),
        (GO, "go: { from: [a], to: b, digest: {} }"),
        (GO, "go: { from: [a], to: b, while_held: perhaps }"),
        (GO, "go: { from: [a], to: b, upstream: 5 }"),
        (GO, "go: { from: [a], to: b, otherwise: { z: perhaps } }"),
    ];
    for (part, by) in beside {
        assert!(followed(part, by), "{by}");
    }
    let made_of = [
        (
            STATES,
            "states: { a: {}, b: {}, q q: {}, z: { final: true } }",
        ),
        (STATES, "states: { a: {}, b: {}, z: { finale: true } }"),
        (GO, "g o: { from: [a], to: b }"),
    ];
    for (part, by) in made_of {
        assert!(!followed(part, by), "{by}");
    }
    // A retention that could not be read is not too long for anything.
    let found = findings(&changed(retention, "retention: 5\nforget: 30m"));
    let rules: Vec<Rule> = found.iter().map(|f| f.rule).collect();
    assert_eq!(rules, [Rule::Duration]);
}

#[test]
fn a_retry_window_as_long_as_the_retention_is_kept() {
    let text = changed(
        GO,
        "go: { from: [a], to: b, upstream: { retry_window: 60m } }",
    );
    assert_eq!(findings(&text), []);
}

#[test]
fn a_state_that_only_leads_out_is_unreachable_too() {
    let states = "states: { a: {}, b: {}, z: { final: true }, lost: {} }";
    let text = changed(STATES, states) + "  find: { from: [lost], to: a, matches: [round] }\n";
    let rules: Vec<Rule> = findings(&text).iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, [Rule::Unreachable, Rule::NotSetHere]);
}

#[test]
fn a_final_state_may_be_entered_anew_because_nothing_leaves_it() {
    let text =
        BASE.to_owned() + "  again: { from: [z], to: z, sets: [round] }\n  look: { from: [z] }\n";
    assert_eq!(findings(&text), []);
}

#[test]
fn a_circle_that_identity_guards_is_no_finding() {
    for back in ["matches: [round]", "clears: [round]", "sets: [round]"] {
        let by = format!("go: {{ from: [a], to: b }}\n  back: {{ from: [b], to: a, {back} }}");
        let found = findings(&changed(GO, &by));
        assert!(
            found
                .iter()
                .all(|finding| finding.rule != Rule::UnguardedCycle),
            "{back}: {found:?}"
        );
    }
}

#[test]
fn a_wrong_name_does_not_make_half_of_the_states_unreachable() {
    let found = findings(&changed("creates: a", "creates: x"));
    assert_eq!(found.len(), 1, "{found:?}");
}
