//! Texts at the edges: sizes, encodings, and everything that a definition can say.

use std::time::Duration;

use super::super::{
    DEPTH_MAX, DigestRule, EVENT_IDENTITY_NAMES_MAX, EVENTS_MAX, Effect, FILE_BYTES_MAX,
    FINDINGS_MAX, Interrupted, LIST_ITEMS_MAX, MACHINE_IDENTITY_NAMES_MAX, Machine, OnRefusal,
    Origin, OtherRound, Otherwise, Place, Receipt, Rule, STATES_MAX, SecondKey, WhileHeld,
};
use super::{BASE, changed, findings, machine};

fn rules(text: &str) -> Vec<Rule> {
    findings(text).iter().map(|finding| finding.rule).collect()
}

#[test]
fn everything_that_an_event_can_say_is_kept() {
    let text = changed(
        "go: { from: [a], to: b, matches: [round] }",
        "go:
    from: [a]
    to: b
    matches: [round]
    digest: { exclude: [/sent_at, /a~1b] }
    interrupted: rerun
    otherwise: { b: supersede, z: reject }
    origin: queue
    upstream: { key: /id, receipt: done, retry_window: 30m, on_refusal: keeps_retrying }
    second_key: same
    other_round: incident
    claim: 45s",
    );
    let machine = machine(&text);
    let definition = machine.definition();
    let mut events = definition.events.iter();
    let go = events
        .find(|event| event.name.value.as_str() == "go")
        .unwrap();
    assert!(matches!(&go.effect, Effect::Moves { to, .. } if to.value.as_str() == "b"));
    assert_eq!(
        go.digest,
        DigestRule::Exclude(vec!["/sent_at".into(), "/a~1b".into()])
    );
    assert_eq!(go.interrupted.value, Interrupted::Rerun);
    let otherwise = go
        .otherwise
        .iter()
        .map(|(state, said)| (state.value.as_str(), *said));
    assert_eq!(
        otherwise.collect::<Vec<_>>(),
        [("b", Otherwise::Supersede), ("z", Otherwise::Reject)]
    );
    assert_eq!(go.origin, Origin::Queue);
    assert_eq!(go.second_key, SecondKey::Same);
    assert_eq!(go.other_round, OtherRound::Incident);
    assert_eq!(go.claim, Some(Duration::from_secs(45)));
    let upstream = go.upstream.as_ref().unwrap();
    assert_eq!(upstream.key.as_deref(), Some("/id"));
    assert_eq!(upstream.receipt, Receipt::Done);
    assert_eq!(upstream.on_refusal, OnRefusal::KeepsRetrying);
    assert_eq!(
        upstream.retry_window.as_ref().unwrap().value,
        Duration::from_secs(1800)
    );
}

#[test]
fn what_is_unsaid_is_the_careful_choice() {
    let machine = machine(BASE);
    let go = &machine.definition().events[1];
    assert_eq!(go.interrupted.value, Interrupted::Ask);
    assert_eq!(go.origin, Origin::Callback);
    assert_eq!(go.while_held.value, WhileHeld::Busy);
    assert_eq!(go.second_key, SecondKey::Incident);
    assert_eq!(go.other_round, OtherRound::Acknowledge);
    assert_eq!(go.digest, DigestRule::Whole);
    assert_eq!(
        machine
            .definition()
            .forget
            .as_ref()
            .map(|forget| forget.value),
        None
    );
}

#[test]
fn places_count_characters_not_bytes_and_a_byte_order_mark_is_no_column() {
    let text = changed(
        "go: { from: [a]",
        "go: { digest: { include: [/ü] }, frm: [a]",
    );
    let found = findings(&text);
    let mut found = found.iter();
    let place = found.find(|f| f.rule == Rule::UnknownKey).unwrap().place;
    let line: Vec<char> = text.lines().nth(place.line - 1).unwrap().chars().collect();
    assert_eq!(line[place.column - 1..place.column + 2], ['f', 'r', 'm']);
    let marked = findings(&format!("\u{feff}{BASE}"));
    assert_eq!(marked.len(), 1, "{marked:?}");
    assert!(
        marked[0]
            .to_string()
            .starts_with("1:1: error[yaml]: the file begins with a byte order mark"),
        "{marked:?}"
    );
    let crlf = BASE.replace('\n', "\r\n");
    assert_eq!(findings(&crlf), []);
}

#[test]
fn bytes_that_are_no_utf8_are_told_with_their_place() {
    let mut bytes = b"kind: parcel\nversion: \xc3\xbc".to_vec();
    bytes.push(0xff);
    let reading = Machine::read(&bytes);
    assert!(reading.machine.is_none());
    assert_eq!(
        reading.findings[0].place,
        Place {
            line: 2,
            column: 11
        }
    );
}

#[test]
fn an_empty_file_is_told_as_one() {
    for empty in ["", "\n\n", "# nothing\n", "---\n", "~", "--- \n...\n"] {
        assert_eq!(rules(empty), [Rule::Missing], "{empty:?}");
    }
    for other in ["[]", "x", "- a\n- b\n", "3"] {
        assert_eq!(rules(other), [Rule::Value], "{other:?}");
    }
}

/// A ring of states, so that none is a dead end.
fn ring(states: usize, events: usize) -> String {
    let mut text = String::from("kind: k\nversion: 1\nretention: 1h\nstates:\n");
    for state in 0..states {
        text.push_str(&format!("  s{state}: {{}}\n"));
    }
    text.push_str("events:\n  make: { creates: s0, sets: [r] }\n");
    for event in 1..events {
        let (from, to) = (event % states, (event + 1) % states);
        text.push_str(&format!(
            "  e{event}: {{ from: [s{from}], to: s{to}, matches: [r], claim: {}s }}\n",
            event + 3
        ));
    }
    text
}

#[test]
fn every_limit_is_reached_and_not_passed() {
    let full = machine(&ring(STATES_MAX, EVENTS_MAX));
    assert_eq!(full.definition().events.len(), EVENTS_MAX);
    for event in &full.definition().events {
        assert_eq!(full.dispositions(event).len(), STATES_MAX + 1);
    }
    assert_eq!(rules(&ring(STATES_MAX + 1, EVENTS_MAX)), [Rule::Limit]);
    assert_eq!(rules(&ring(STATES_MAX, EVENTS_MAX + 1)), [Rule::Limit]);

    let list = |count: usize, sort: &str| {
        (0..count)
            .map(|at| format!("{sort}{at}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let digest = |count| {
        changed(
            "to: b,",
            &format!("to: b, digest: {{ include: [{}] }},", list(count, "/p")),
        )
    };
    assert_eq!(rules(&digest(LIST_ITEMS_MAX)), []);
    assert_eq!(rules(&digest(LIST_ITEMS_MAX + 1)), [Rule::Limit]);

    let sets = |count| {
        changed(
            "sets: [round]",
            &format!("sets: [round, {}]", list(count - 1, "n")),
        )
    };
    assert_eq!(rules(&sets(EVENT_IDENTITY_NAMES_MAX)), []);
    assert_eq!(rules(&sets(EVENT_IDENTITY_NAMES_MAX + 1)), [Rule::Limit]);

    let names = |count: usize| {
        let events: Vec<String> = (1..count)
            .map(|at| format!("  n{at}: {{ from: [a], sets: [i{at}] }}\n"))
            .collect();
        format!("{BASE}{}", events.concat())
    };
    assert_eq!(rules(&names(MACHINE_IDENTITY_NAMES_MAX)), []);
    assert_eq!(rules(&names(MACHINE_IDENTITY_NAMES_MAX + 1)), [Rule::Limit]);

    let padded = |bytes: usize| format!("{BASE}#{}", "x".repeat(bytes - BASE.len() - 1));
    assert_eq!(rules(&padded(FILE_BYTES_MAX)), []);
    assert_eq!(rules(&padded(FILE_BYTES_MAX + 1)), [Rule::Limit]);
}

#[test]
fn findings_past_their_limit_are_counted_and_the_file_is_refused_all_the_same() {
    let names: Vec<String> = (0..LIST_ITEMS_MAX).map(|at| format!("q{at}")).collect();
    let list = names.join(", ");
    let events: String = (0..8)
        .map(|at| format!("  e{at}: {{ from: [{list}] }}\n"))
        .collect();
    let found = findings(&format!("{BASE}{events}"));
    assert_eq!(found.len(), FINDINGS_MAX + 1);
    let last = found.last().unwrap();
    assert_eq!(last.rule, Rule::Limit);
    assert!(last.what.contains("are left out"), "{last}");

    // As many warnings as there are events, and an error behind them all.
    let turns = |count: usize, end: &str| {
        let turns: String = (0..count)
            .map(|at| format!("  t{at}: {{ from: [a], to: a, claim: {}s }}\n", at + 3))
            .collect();
        Machine::read(format!("{BASE}{turns}{end}").as_bytes())
    };
    assert!(turns(FINDINGS_MAX + 9, "").machine.is_some());
    let refused = turns(FINDINGS_MAX + 9, "  last: { from: [a], clears: [x] }\n");
    assert!(refused.machine.is_none());
    let defer: String = (0..FINDINGS_MAX + 9)
        .map(|at| format!("  d{at}: {{ from: [a], interrupted: defer }}\n"))
        .collect();
    assert!(
        Machine::read(format!("{BASE}{defer}").as_bytes())
            .machine
            .is_some()
    );
    let refused = Machine::read(format!("{BASE}{defer}  last: {{ from: [q] }}\n").as_bytes());
    assert!(refused.machine.is_none());
}

#[test]
fn the_worst_file_of_full_size_is_read_in_a_moment() {
    let filled = |line: &dyn Fn(usize) -> String| {
        let mut text = String::from(BASE);
        for at in 0.. {
            let line = line(at);
            if text.len() + line.len() > FILE_BYTES_MAX {
                break;
            }
            text.push_str(&line);
        }
        text
    };
    let long = "y".repeat(60);
    let files = [
        filled(&|at| format!("key{at}: x\n")),
        filled(&|at| format!("  e{at}: {{ from: [{long}{at}] }}\n")),
        filled(&|at| format!("  e{at}: {{ from: [a], sets: [i{at}, j{at}, k{at}] }}\n")),
        filled(&|at| {
            if at == 0 {
                "map:\n  events:\n".into()
            } else {
                format!("    m{at}: x{at}\n")
            }
        }),
        filled(&|at| {
            if at == 0 {
                "map:\n  states:\n".into()
            } else {
                format!("    {long}{at}: {long}\n")
            }
        }),
        filled(&|at| {
            if at == 0 {
                "  e: { from: [a], otherwise: {".into()
            } else {
                format!("x{at}: reject, ")
            }
        }),
        ring(STATES_MAX, EVENTS_MAX),
    ];
    for text in files {
        let cpu = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_sec;
        let before = cpu();
        let _ = findings(&text);
        assert!(
            cpu() - before <= 5,
            "{}",
            &text[BASE.len()..BASE.len() + 80]
        );
    }
}

#[test]
fn a_file_that_is_nothing_but_brackets_is_refused_before_it_is_followed() {
    for bracket in ["[", "{a: ", "- ", "? ", "[a, {b: "] {
        let text = bracket.repeat(FILE_BYTES_MAX / bracket.len());
        assert_eq!(rules(&text), [Rule::Yaml], "{bracket:?}");
    }
    let nested = format!(
        "kind: {}{}",
        "[".repeat(DEPTH_MAX + 1),
        "]".repeat(DEPTH_MAX + 1)
    );
    assert_eq!(rules(&nested), [Rule::Yaml]);
}

#[test]
fn an_alias_cannot_unfold_a_small_file_into_a_huge_one() {
    let laughs = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n";
    assert_eq!(rules(laughs), [Rule::Yaml]);
    assert_eq!(rules("kind: *nobody\n"), [Rule::Yaml]);
    assert_eq!(
        rules(&changed("go: {", "go: { <<: {},")),
        [Rule::UnknownKey]
    );
}

#[test]
fn a_hostile_text_neither_floods_nor_commands_the_terminal() {
    let long = "x".repeat(10_000);
    for text in [
        format!("{BASE}\"\\e[2J\\n{long}\": 1\n"),
        BASE.replace("parcel", &format!("\"\\e[2J{long}\"")),
        changed("go: {", &format!("go: {{ origin: \"\\e]0;{long}\",")),
        changed("go: {", &format!("\"\\e[1m{long}\": {{")),
        changed(
            "states: { a",
            &format!("states: {{ \"\\e[1m{long}\": {{ x: 1 }}, a"),
        ),
    ] {
        for finding in findings(&text) {
            let line = finding.to_string();
            assert!(line.len() < 700, "{line}");
            assert!(!line.contains(|c: char| c.is_control()), "{line}");
        }
    }
}

#[test]
fn no_finding_repeats_what_commands_a_terminal() {
    let long = "9".repeat(500);
    for state in ["\u{85}a\\tb", " a\\e[31mb", "\u{2028}a\\u0007"] {
        let text = changed("[a]", &format!("[\"{state}\"]"));
        let found = findings(&text);
        assert!(
            found.iter().any(|finding| finding.rule == Rule::StraySpace),
            "{state}: {found:?}"
        );
        for finding in found {
            let line = finding.to_string();
            assert!(!line.contains(char::is_control), "{line:?}");
        }
    }
    let text = changed("retention: 1h", &format!("retention: {long}"));
    for finding in findings(&text) {
        assert!(finding.to_string().len() < 300, "{finding}");
    }
}

#[test]
fn the_fix_for_stray_space_shows_the_name_as_it_should_be() {
    let text = changed("from: [a]", "from: [\"a \"]");
    let fixes: Vec<_> = findings(&text)
        .into_iter()
        .map(|finding| finding.fix)
        .collect();
    assert!(
        fixes.contains(&"write a, without quotes".to_owned()),
        "{fixes:?}"
    );
}
