//! Whatever a file says, reading it ends, and ends well.

use proptest::prelude::*;

use super::super::{Disposition, Effect, Finding, Machine, Refusal};
use super::BASE;

/// Reads a text, and checks what must hold for every one.
fn read(bytes: &[u8]) {
    let reading = Machine::read(bytes);
    let errors = reading
        .findings
        .iter()
        .any(|finding| finding.to_string().contains(": error["));
    assert_eq!(reading.machine.is_none(), errors, "{:?}", reading.findings);
    let lines = String::from_utf8_lossy(bytes);
    let lines = lines.split('\n').count();
    for finding in &reading.findings {
        let line = finding.place.line;
        assert!(line >= 1 && finding.place.column >= 1, "{finding}");
        // A carriage return alone begins a line, too.
        assert!(line <= lines + lines_by_return(bytes), "{finding}");
        assert!(!finding.to_string().contains(char::is_control), "{finding}");
    }
    if let Some(machine) = &reading.machine {
        for event in &machine.definition().events {
            let _ = machine.dispositions(event);
        }
    }
}

fn lines_by_return(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\r').count()
}

/// Pieces that machine files are made of, and pieces that they are not.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "kind",
            "version",
            "retention",
            "states",
            "events",
            "from",
            "to",
            "creates",
            "matches",
            "digest",
            "map",
            "otherwise",
            "upstream",
            "a",
            "b",
            "1",
            "1h",
            "none",
            "final",
            "true",
        ])
        .prop_map(str::to_owned),
        prop::sample::select(vec![
            ": ",
            ", ",
            "{",
            "}",
            "[",
            "]",
            "\n",
            "\n  ",
            "\n    ",
            "- ",
            "? ",
            "#",
            "&x ",
            "*x",
            "!t ",
            "|\n",
            ">-\n",
            "'",
            "\"",
            "---\n",
            "...\n",
            "%YAML 1.2\n",
            "\t",
            "\r",
            "~",
            "\u{feff}",
            "\u{85}",
            "ü",
            "<<: ",
            "\\",
            "@",
            "`",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn random_yaml_is_read_or_refused_and_never_panics(text in pieces()) {
        read(text.as_bytes());
    }

    #[test]
    fn random_bytes_are_read_or_refused_and_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        read(&bytes);
    }

    #[test]
    fn a_sound_file_with_a_piece_put_in_or_cut_out_never_panics(
        at in 0..BASE.len(), cut in 0_usize..12, piece in pieces(),
    ) {
        // The base is ASCII: every byte is a character.
        let rest = BASE.get((at + cut).min(BASE.len())..).unwrap();
        read(format!("{}{piece}{rest}", &BASE[..at]).as_bytes());
    }

    #[test]
    fn what_a_file_says_of_a_state_is_what_its_histories_say(machine in machines(), walk in prop::collection::vec(any::<u16>(), 0..24)) {
        follow(&machine, &walk);
    }
}

/// Small sound machines, with every event an ordinary move or the creation.
fn machines() -> impl Strategy<Value = Machine> {
    let moves = prop::collection::vec((0_usize..5, 0_usize..5), 1..9);
    (moves, prop::collection::vec(0_usize..5, 1..3)).prop_filter_map(
        "unsound",
        |(moves, created)| {
            let mut text = String::from("kind: k\nversion: 1\nretention: 1h\nstates:\n");
            for state in 0..5 {
                let leaves = moves.iter().any(|(from, to)| *from == state && from != to);
                let last = if leaves { "{}" } else { "{ final: true }" };
                text.push_str(&format!("  s{state}: {last}\n"));
            }
            text.push_str("events:\n");
            for (at, to) in created.iter().enumerate() {
                text.push_str(&format!("  c{at}: {{ creates: s{to} }}\n"));
            }
            for (at, (from, to)) in moves.iter().enumerate() {
                text.push_str(&format!("  m{at}: {{ from: [s{from}], to: s{to} }}\n"));
            }
            // States that nothing leads to are no part of the question.
            loop {
                let reading = Machine::read(text.as_bytes());
                if let Some(machine) = reading.machine {
                    return Some(machine);
                }
                let lost: Vec<usize> = reading
                    .findings
                    .iter()
                    .filter(|finding| finding.to_string().contains("error[unreachable]"))
                    .map(|finding: &Finding| finding.place.line)
                    .collect();
                if lost.is_empty() {
                    return None;
                }
                let names: Vec<String> = lost
                    .iter()
                    .filter_map(|line| text.lines().nth(line - 1))
                    .filter_map(|line| line.trim().split(':').next().map(str::to_owned))
                    .collect();
                let kept = |line: &&str| !names.iter().any(|name| line.contains(name.as_str()));
                text = text
                    .lines()
                    .filter(kept)
                    .map(|line| format!("{line}\n"))
                    .collect();
            }
        },
    )
}

/// Walks through a machine by the rule as the design tells it, with counted times, and holds the table against it.
fn follow(machine: &Machine, walk: &[u16]) {
    let definition = machine.definition();
    let states: Vec<&str> = definition
        .states
        .iter()
        .map(|s| s.name.value.as_str())
        .collect();
    let at = |name: &str| states.iter().position(|state| *state == name).unwrap();
    let mut entered = vec![None; states.len()];
    let mut left = vec![None; states.len()];
    let mut now: Option<usize> = None;
    for (time, step) in (1..).zip(walk) {
        let possible: Vec<usize> = definition
            .events
            .iter()
            .filter(|event| match (&event.effect, now) {
                (Effect::Creates(_), None) => true,
                (Effect::Moves { from, .. }, Some(now)) => {
                    from.iter().any(|from| at(from.value.as_str()) == now)
                }
                _ => false,
            })
            .map(|event| at(event.to().unwrap().value.as_str()))
            .collect();
        let Some(next) = possible.get(usize::from(*step) % possible.len().max(1)) else {
            break;
        };
        if let Some(now) = now {
            left[now] = Some(time);
        }
        entered[*next] = Some(time);
        now = Some(*next);
        for event in &definition.events {
            let from: Vec<usize> = event.from().iter().map(|f| at(f.value.as_str())).collect();
            if from.contains(next) {
                continue;
            }
            let to = at(event.to().unwrap().value.as_str());
            // Who creates has left nowhere, before the first step.
            let last_left = match event.effect {
                Effect::Creates(_) => Some(0),
                _ => from.iter().filter_map(|from| left[*from]).max(),
            };
            let made =
                last_left.is_some_and(|left| entered[to].is_some_and(|entered| entered >= left));
            let said = machine.dispositions(event)[next + 1];
            let fits = match said {
                Disposition::Superseded => made,
                Disposition::ByHistory(_) => true,
                Disposition::Refused(Refusal::TooEarly | Refusal::Rejected) => !made,
                _ => false,
            };
            assert!(
                fits,
                "{} in {}: {said:?}, made: {made}",
                event.name.value, states[*next]
            );
        }
    }
}
