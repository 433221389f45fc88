//! The hash, and what may follow what.

use super::super::{Difference, Rule, difference};
use super::{BASE, changed, machine};

fn between(old: &str, new: &str) -> Difference {
    difference(&machine(old), &machine(new))
}

fn rules(difference: &Difference) -> Vec<Rule> {
    difference
        .findings
        .iter()
        .map(|finding| finding.rule)
        .collect()
}

fn lines(difference: &Difference) -> Vec<String> {
    difference.changes.iter().map(ToString::to_string).collect()
}

#[test]
fn the_hash_knows_what_is_said_and_not_how_it_is_written() {
    let hash = machine(BASE).hash();
    let same = [
        format!("# a comment\n{BASE}"),
        BASE.replace("1h", "60m"),
        BASE.replace(
            "{ a: {}, b: {}, z: { final: true } }",
            "\n  z: { final: true }\n  b: {}\n  a: { final: false }\n",
        ),
        BASE.replace(
            "go: { from: [a], to: b,",
            "go: { to: \"b\", from: ['a'], origin: callback,",
        ),
    ];
    for text in same {
        assert_eq!(machine(&text).hash(), hash, "{text}");
    }
    let lists = BASE.replace("from: [b]", "from: [b, a]");
    assert_eq!(
        machine(&lists).hash(),
        machine(&lists.replace("[b, a]", "[a, b]")).hash()
    );
    let other = [
        BASE.replace("parcel", "parcels"),
        BASE.replace("version: 1", "version: 2"),
        BASE.replace("1h", "2h"),
        BASE.replace("to: b,", "to: b, origin: queue,"),
        BASE.replace("to: b,", "to: b, digest: { include: [/x, /y] },"),
        BASE.replace("to: b,", "to: b, digest: { include: ['/x, /y'] },"),
        BASE.replace("to: b,", "to: b, digest: { exclude: [/x, /y] },"),
        format!("{BASE}map: {{ states: {{ old: a }} }}\n"),
        format!("{BASE}map: {{ events: {{ old: none }} }}\n"),
    ];
    let mut hashes: Vec<_> = other
        .iter()
        .map(|text| *machine(text).hash().as_bytes())
        .collect();
    hashes.push(*hash.as_bytes());
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), other.len() + 1);
}

#[test]
fn the_hash_is_the_same_in_every_version_of_fencepost() {
    // Definitions in force are kept under it: a change here is a change of law for everybody.
    let bytes = *machine(BASE).hash().as_bytes();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex,
        "5a6cc4160d67f3ebe6f9493ef01e8276f421f3be8ecf26658828830a2954b7ca"
    );
}

#[test]
fn only_a_higher_version_may_bring_other_content() {
    let other = changed("to: b,", "to: b, origin: queue,");
    let at = |version: u32, text: &str| text.replace("version: 1", &format!("version: {version}"));
    assert_eq!(rules(&between(BASE, &at(2, &other))), []);
    assert_eq!(rules(&between(BASE, BASE)), []);
    assert_eq!(rules(&between(BASE, &at(2, BASE))), []);
    assert_eq!(rules(&between(BASE, &other)), [Rule::Version]);
    assert_eq!(
        rules(&between(&at(3, BASE), &at(2, &other))),
        [Rule::Version]
    );
    assert_eq!(rules(&between(&at(3, BASE), &at(2, BASE))), [Rule::Version]);
    assert_eq!(
        rules(&between(BASE, &at(2, &BASE.replace("parcel", "letter")))),
        [Rule::Version]
    );
    let refused = between(&at(7, BASE), &other);
    assert!(refused.findings[0].fix.contains("version 8"), "{refused:?}");
    assert_eq!(refused.findings[0].place.to_string(), "2:10");
}

const WITHOUT_B: &str = "\
kind: parcel
version: 2
retention: 1h
states: { a: {}, z: { final: true } }
events:
  make: { creates: a, sets: [round] }
  end: { from: [a], to: z, matches: [round] }
";

#[test]
fn what_a_version_drops_it_must_map() {
    let bare = between(BASE, WITHOUT_B);
    assert_eq!(rules(&bare), [Rule::Unmapped, Rule::Unmapped]);
    assert!(bare.findings[0].what.contains("state b"), "{bare:?}");
    assert!(
        bare.findings[0]
            .fix
            .contains("map: { states: { b: NAME } }"),
        "{bare:?}"
    );
    assert!(bare.findings[1].what.contains("event go"), "{bare:?}");
    let others = format!("{WITHOUT_B}map: {{ states: {{ x: a }}, events: {{ y: end }} }}\n");
    let still = between(BASE, &others);
    assert_eq!(rules(&still), [Rule::Unmapped, Rule::Unmapped]);
    let half = format!("{WITHOUT_B}map: {{ states: {{ b: a }} }}\n");
    assert_eq!(rules(&between(BASE, &half)), [Rule::Unmapped]);
    for successor in ["end", "none"] {
        let mapped =
            format!("{WITHOUT_B}map: {{ states: {{ b: a }}, events: {{ go: {successor} }} }}\n");
        assert_eq!(rules(&between(BASE, &mapped)), [], "{successor}");
    }
}

#[test]
fn changes_are_told_one_by_one() {
    let new = "\
kind: parcel
version: 2
retention: 2h
states: { a: {}, b: {}, y: { final: true }, z: { final: true } }
events:
  make: { creates: a, sets: [round] }
  go: { from: [a, b], to: b, sets: [round] }
  end: { from: [b], to: z, matches: [round] }
  drop: { from: [b], to: y, matches: [round] }
";
    assert_eq!(
        lines(&between(BASE, new)),
        [
            "+ event drop",
            "+ event drop from: b",
            "+ event drop matches: round",
            "+ event drop to: y",
            "~ event go from: a → a, b",
            "- event go matches: round",
            "+ event go sets: round",
            "~ retention: 1h → 2h",
            "+ state y",
            "+ state y final: true",
        ]
    );
    assert_eq!(lines(&between(BASE, BASE)), [""; 0]);
}
