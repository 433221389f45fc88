//! The contract for arbitrary values and arbitrary bytes.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm
)]
use std::collections::BTreeMap;
use std::fmt::Write as _;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::value::RawValue;

use super::*;

/// A JSON value without any spelling.
#[derive(Clone, Debug, PartialEq)]
enum Model {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Model>),
    Map(BTreeMap<String, Model>),
}

/// Zero has no sign and no exponent; other coefficients do not end with 0.
#[derive(Clone, Debug, PartialEq)]
struct Number {
    coefficient: i128,
    exponent: i64,
}

impl Number {
    fn normal(mut coefficient: i128, mut exponent: i64) -> Self {
        if coefficient == 0 {
            return Self {
                coefficient,
                exponent: 0,
            };
        }
        while coefficient % 10 == 0 {
            coefficient /= 10;
            exponent += 1;
        }
        Self {
            coefficient,
            exponent,
        }
    }
}

fn number() -> impl Strategy<Value = Number> {
    let coefficient = prop_oneof![
        -3..=3_i128,
        -2_000..2_000_i128,
        any::<i64>().prop_map(i128::from)
    ];
    let exponent =
        prop_oneof![4 => -3..=3_i64, 1 => -400..400_i64, 1 => any::<i32>().prop_map(i64::from)];
    (coefficient, exponent)
        .prop_map(|(coefficient, exponent)| Number::normal(coefficient, exponent))
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[ab:\"]{0,2}", "[\\x00-\\x7f]{0,5}", any::<String>()]
}

fn model() -> impl Strategy<Value = Model> {
    let leaf = prop_oneof![
        Just(Model::Null),
        any::<bool>().prop_map(Model::Bool),
        number().prop_map(Model::Number),
        text().prop_map(Model::Text),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Model::List),
            btree_map(text(), inner, 0..5).prop_map(Model::Map),
        ]
    })
}

/// So few values that two of them are often equal.
fn tiny_model() -> impl Strategy<Value = Model> {
    let leaf = prop_oneof![
        Just(Model::Null),
        (-1..=1_i128, 0..2_i64).prop_map(|(c, e)| Model::Number(Number::normal(c, e))),
        "[a1]{0,1}".prop_map(Model::Text),
    ];
    leaf.prop_recursive(2, 4, 2, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Model::List),
            btree_map("[a1]{0,1}", inner, 0..3).prop_map(Model::Map),
        ]
    })
}

/// Prints a model in one of its many spellings, as the choices have it.
struct Printer<'a> {
    choices: std::iter::Cycle<std::slice::Iter<'a, u8>>,
    out: String,
}

fn spelled(model: &Model, choices: &[u8]) -> String {
    let mut printer = Printer {
        choices: choices.iter().cycle(),
        out: String::new(),
    };
    printer.value(model);
    printer.out
}

impl Printer<'_> {
    fn choose(&mut self, below: usize) -> usize {
        usize::from(*self.choices.next().unwrap()) % below
    }

    fn put_one(&mut self, ways: &[&str]) {
        let way = self.choose(ways.len());
        self.out.push_str(ways[way]);
    }

    fn space(&mut self) {
        self.put_one(&["", "", " ", "\n", "\t\r\n  "]);
    }

    fn value(&mut self, model: &Model) {
        self.space();
        match model {
            Model::Null => self.out.push_str("null"),
            Model::Bool(value) => write!(self.out, "{value}").unwrap(),
            Model::Number(number) => self.number(number),
            Model::Text(text) => self.text(text),
            Model::List(elements) => {
                self.out.push('[');
                for (at, element) in elements.iter().enumerate() {
                    self.out.push_str(if at == 0 { "" } else { "," });
                    self.value(element);
                }
                self.space();
                self.out.push(']');
            }
            Model::Map(members) => {
                let mut left: Vec<_> = members.iter().collect();
                self.out.push('{');
                while !left.is_empty() {
                    let at = self.choose(left.len());
                    let (name, value) = left.swap_remove(at);
                    self.space();
                    self.text(name);
                    self.space();
                    self.out.push(':');
                    self.value(value);
                    self.out.push_str(if left.is_empty() { "" } else { "," });
                }
                self.space();
                self.out.push('}');
            }
        }
        self.space();
    }

    fn number(&mut self, number: &Number) {
        let zero = number.coefficient == 0;
        if number.coefficient < 0 || (zero && self.choose(2) == 0) {
            self.out.push('-');
        }
        let appended = self.choose(4);
        let digits = format!(
            "{}{}",
            number.coefficient.unsigned_abs(),
            "0".repeat(appended)
        );
        let mut exponent = number.exponent - appended as i64;
        // The point may stand before, inside or behind the digits.
        let fraction = self.choose(digits.len() + 3);
        let padded = format!("{digits:0>width$}", width = fraction + 1);
        let (whole, part) = padded.split_at(padded.len() - fraction);
        let whole = whole.trim_start_matches('0');
        self.out
            .push_str(if whole.is_empty() { "0" } else { whole });
        if fraction > 0 {
            write!(self.out, ".{part}").unwrap();
        }
        exponent += fraction as i64;
        if zero {
            exponent = self.choose(200) as i64 - 100;
        }
        if exponent != 0 || self.choose(2) == 0 {
            self.put_one(&["e", "E"]);
            self.put_one(if exponent < 0 { &["-"] } else { &["", "+"] });
            self.put_one(&["", "0", "000"]);
            write!(self.out, "{}", exponent.unsigned_abs()).unwrap();
        }
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for character in text.chars() {
            let short = match character {
                '"' => Some('"'),
                '\\' => Some('\\'),
                '/' => Some('/'),
                '\u{8}' => Some('b'),
                '\u{c}' => Some('f'),
                '\n' => Some('n'),
                '\r' => Some('r'),
                '\t' => Some('t'),
                _ => None,
            };
            let must_escape = character < ' ' || matches!(character, '"' | '\\');
            match (self.choose(4), short) {
                (0, Some(short)) => write!(self.out, "\\{short}").unwrap(),
                (2.., _) if !must_escape => self.out.push(character),
                (way, _) => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        if way == 1 {
                            write!(self.out, "\\u{unit:04x}").unwrap();
                        } else {
                            write!(self.out, "\\u{unit:04X}").unwrap();
                        }
                    }
                }
            }
        }
        self.out.push('"');
    }
}

/// The model with one place changed, somewhere in it.
fn mutated(model: &Model, choices: &mut impl Iterator<Item = u8>) -> Model {
    let mut choose = |below: usize| usize::from(choices.next().unwrap()) % below;
    match model {
        Model::Null => [
            Model::Bool(false),
            Model::Text(String::new()),
            Model::List(vec![]),
        ][choose(3)]
        .clone(),
        Model::Bool(value) => {
            [Model::Bool(!value), Model::Text(value.to_string())][choose(2)].clone()
        }
        Model::Number(Number {
            coefficient,
            exponent,
        }) => {
            let (c, e) = (*coefficient, *exponent);
            match choose(4) {
                0 => Model::Text(c.to_string()),
                1 if c != 0 => Model::Number(Number::normal(-c, e)),
                2 if c != 0 => Model::Number(Number::normal(c, e + 1)),
                _ => Model::Number(Number::normal(c + 1, e)),
            }
        }
        Model::Text(text) => match choose(3) {
            0 => Model::Text(format!("{text}\0")),
            1 => Model::Text(format!("a{text}")),
            _ => Model::List(vec![model.clone()]),
        },
        Model::List(elements) => {
            let mut elements = elements.clone();
            match choose(4) {
                0 => elements.push(Model::Null),
                1 => return Model::List(vec![model.clone()]),
                _ if elements.is_empty() => return Model::Map(BTreeMap::new()),
                _ => {
                    let at = choose(elements.len());
                    elements[at] = mutated(&elements[at], choices);
                }
            }
            Model::List(elements)
        }
        Model::Map(members) => {
            let mut members = members.clone();
            let Some(name) = members.keys().nth(choose(members.len().max(1))).cloned() else {
                return Model::Map(BTreeMap::from([(String::new(), Model::Null)]));
            };
            let value = members.remove(&name).unwrap();
            match choose(3) {
                0 => {}
                1 => {
                    members.insert(format!("{name}~"), value);
                }
                _ => {
                    members.insert(name, mutated(&value, choices));
                }
            }
            Model::Map(members)
        }
    }
}

fn digest(text: &str) -> ContentDigest {
    ContentDigest::of_json(text.as_bytes()).unwrap_or_else(|fault| panic!("{text} {fault}"))
}

fn choices() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 1..64)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn two_spellings_of_a_value_have_one_digest(
        model in model(), one in choices(), other in choices(),
    ) {
        let (one, other) = (spelled(&model, &one), spelled(&model, &other));
        prop_assert_eq!(digest(&one), digest(&other), "{} and {}", one, other);
    }

    #[test]
    fn a_changed_value_has_another_digest(
        model in model(), change in choices(), spelling in choices(),
    ) {
        let changed = mutated(&model, &mut change.iter().copied().cycle());
        prop_assert_ne!(&model, &changed);
        let (one, other) = (spelled(&model, &spelling), spelled(&changed, &spelling));
        prop_assert_ne!(digest(&one), digest(&other), "{} and {}", one, other);
    }

    #[test]
    fn digests_are_equal_exactly_if_values_are(
        one in tiny_model(), other in tiny_model(), spelling in choices(),
    ) {
        let same = digest(&spelled(&one, &spelling)) == digest(&spelled(&other, &[0]));
        prop_assert_eq!(same, one == other);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = ContentDigest::of_json(&bytes);
    }

    #[test]
    fn the_grammar_is_that_of_serde_json(
        text in r#"([\[\]{}",:0-9eE+\-. \\ut\n]|"a"|:1|\[\]|\\ud800|null|true|é|1\.5e3){0,12}"#,
    ) {
        agrees_with_serde_json(&text)?;
    }

    #[test]
    fn a_damaged_text_is_judged_as_by_serde_json(
        model in model(), spelling in choices(), at in any::<prop::sample::Index>(),
        put in r#"[\[\]{}",:0-9e+\-. \\u\n]{0,2}"#, dropped in 0..3_usize,
    ) {
        let mut characters: Vec<char> = spelled(&model, &spelling).chars().collect();
        let from = at.index(characters.len());
        let to = (from + dropped).min(characters.len());
        characters.splice(from..to, put.chars());
        agrees_with_serde_json(&characters.into_iter().collect::<String>())?;
    }
}

/// `RawValue` checks the grammar alone, so what only the contract forbids must be named.
fn agrees_with_serde_json(text: &str) -> Result<(), TestCaseError> {
    let grammatical = serde_json::from_str::<&RawValue>(text).is_ok();
    match ContentDigest::of_json(text.as_bytes()) {
        Ok(_) => prop_assert!(grammatical, "{text} was let through"),
        Err(invalid) => {
            let reason = invalid.to_string();
            let ours = [
                "duplicate member",
                "surrogate",
                "hex escape",
                "exponent has at most",
            ]
            .iter()
            .any(|what| reason.contains(what));
            prop_assert!(ours || !grammatical, "{text} {reason}");
        }
    }
    Ok(())
}
