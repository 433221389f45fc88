//! Halves of characters: `\ud800` and the like, which stand for a character only in pairs. What has one alone is no text, so no string
//! can be made of it.

use std::fmt;

/// Half of a character, alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Half {
    /// Which character of the JSON its escape begins at, from 1.
    at: usize,
}

/// Completes the sentence of a field; the value itself is never told.
impl fmt::Display for Half {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "holds half of a character at character {} of its JSON, an escape from \\ud800 to \\udfff that is not one of a pair: escape \
             both halves, or write the character itself",
            self.at
        )
    }
}

/// The first one anywhere in a JSON text.
pub(super) fn anywhere(json: &str) -> Option<Half> {
    strings(json).find_map(|string| half_in(json, &string))
}

/// The first one in a name of the outermost object.
pub(super) fn in_a_name(json: &str) -> Option<Half> {
    let mut names = strings(json).filter(|string| string.depth == 1 && string.is_name);
    names.find_map(|string| half_in(json, &string))
}

/// A string in a JSON text, by its bytes between the quotes.
#[derive(Debug)]
struct Text {
    begin: usize,
    end: usize,
    /// How many objects and lists it is in.
    depth: usize,
    is_name: bool,
}

fn strings(json: &str) -> impl Iterator<Item = Text> + '_ {
    let bytes = json.as_bytes();
    let mut at = 0;
    let mut depth: usize = 0;
    std::iter::from_fn(move || {
        while let Some(byte) = bytes.get(at) {
            at += 1;
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                b'"' => {
                    let begin = at;
                    let end = end_of_string(bytes, begin);
                    at = end + 1;
                    let behind = json.get(at..).unwrap_or_default();
                    return Some(Text {
                        begin,
                        end,
                        depth,
                        is_name: behind.trim_start().starts_with(':'),
                    });
                }
                _ => {}
            }
        }
        None
    })
}

fn end_of_string(bytes: &[u8], begin: usize) -> usize {
    let mut at = begin;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn half_in(json: &str, string: &Text) -> Option<Half> {
    let until = json.get(..string.end)?;
    let mut at = string.begin;
    loop {
        at += until.get(at..)?.find('\\')?;
        let Some(first) = unit(until, at) else {
            // Another escape, of which only the sign after the backslash matters here.
            at += 1 + until.get(at + 1..)?.chars().next()?.len_utf8();
            continue;
        };
        at += match (first, unit(until, at + UNIT_BYTES)) {
            (0xd800..=0xdbff, Some(0xdc00..=0xdfff)) => 2 * UNIT_BYTES,
            (0xd800..=0xdfff, _) => {
                return Some(Half {
                    at: json.get(..at)?.chars().count() + 1,
                });
            }
            _ => UNIT_BYTES,
        };
    }
}

/// Bytes of `\ud800`.
const UNIT_BYTES: usize = 6;

/// The number of the escape that stands there.
fn unit(text: &str, at: usize) -> Option<u32> {
    let digits = text.get(at..)?.strip_prefix("\\u")?;
    u32::from_str_radix(digits.get(..UNIT_BYTES - 2)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_is_found_where_it_stands_and_a_pair_is_none() {
        let at = |json: &str| anywhere(json).map(|half| half.at);
        assert_eq!(at(r#""\ud800""#), Some(2));
        assert_eq!(at(r#""é\udc00""#), Some(3));
        assert_eq!(at(r#"["a", "\ud83d\ud83d\ude00"]"#), Some(8));
        assert_eq!(at(r#""\ud800\n\udc00""#), Some(2));
        assert_eq!(at(r#"{"a": {"\uD800": 1}}"#), Some(9));
        assert_eq!(at(r#"["\"\ud800"]"#), Some(5));
        for sound in [
            r#""\ud83d\ude00""#,
            r#""\\ud800""#,
            r#""\"\\\ud83d\ude00""#,
            r#""\u0041""#,
            "7",
            "",
            "\"",
            r#""\"#,
            r#""\ud8"#,
        ] {
            assert_eq!(at(sound), None, "{sound}");
        }
    }

    #[test]
    fn a_name_is_told_from_a_value_and_from_a_name_within() {
        assert!(in_a_name(r#"{"\ud800" : 1}"#).is_some());
        for other in [
            r#"{"a": "\ud800"}"#,
            r#"{"a": ["\ud800"]}"#,
            r#"{"a": {"\ud800": 1}}"#,
        ] {
            assert_eq!(in_a_name(other), None, "{other}");
        }
    }
}
