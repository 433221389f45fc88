//! Values on the command line that are more than one word.

use std::collections::BTreeMap;
use std::io::Read;

use bytes::Bytes;
use prost_types::Timestamp;
use uuid::Uuid;

use super::output::say;
use super::trouble::{Trouble, plain};
use crate::proto::v1::{Header, Resource};
use crate::transport::rfc3339;

/// The most that is read from a file or from standard input, in bytes: the largest content that a sidecar takes.
const READ_BYTES_MAX: u64 = 1024 * 1024;

/// A text, a file or standard input, as written after a flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The text itself.
    Text(String),
    /// `@path`.
    File(String),
    /// `-`.
    Stdin,
}

impl Source {
    /// `@@` begins a text with one `@`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        Ok(match text.strip_prefix('@') {
            _ if text == "-" => Self::Stdin,
            None => Self::Text(text.to_owned()),
            Some("") => return Err("@ needs the path of a file; @@ begins a text with @".into()),
            Some(rest) if rest.starts_with('@') => Self::Text(rest.to_owned()),
            Some(path) => Self::File(path.to_owned()),
        })
    }

    /// Reads it whole.
    pub(super) fn read(&self) -> Result<Bytes, Trouble> {
        match self {
            Self::Text(text) => Ok(Bytes::from(text.clone())),
            Self::File(path) => {
                let file = std::fs::File::open(path)
                    .map_err(|error| Trouble::usage(format!("cannot read {path}: {error}")))?;
                bounded(file, path)
            }
            Self::Stdin => bounded(std::io::stdin().lock(), "standard input"),
        }
    }
}

fn bounded(input: impl Read, place: &str) -> Result<Bytes, Trouble> {
    let mut read = Vec::new();
    input
        .take(READ_BYTES_MAX + 1)
        .read_to_end(&mut read)
        .map_err(|error| Trouble::usage(format!("cannot read {place}: {error}")))?;
    if u64::try_from(read.len()).unwrap_or(u64::MAX) > READ_BYTES_MAX {
        return Err(Trouble::usage(format!(
            "{place} is larger than {READ_BYTES_MAX} bytes; send --digest of it instead"
        )));
    }
    Ok(read.into())
}

/// `kind/id`. A kind has no slash, so an id may have as many as it likes.
pub(super) fn resource(text: &str) -> Result<Resource, String> {
    match text.split_once('/') {
        Some((kind, id)) if !kind.is_empty() && !id.is_empty() => Ok(Resource {
            kind: kind.to_owned(),
            id: id.to_owned(),
        }),
        Some(_) | None => Err(format!("`{text}` is not kind/id, such as order/1001")),
    }
}

/// Refuses an empty kind, id or key. It was mostly meant to come from a variable that is not set, which a sidecar could not say.
pub(super) fn not_empty(what: &str, text: &str) -> Result<(), Trouble> {
    if text.is_empty() {
        return Err(Trouble::invalid(format!(
            "{what} is empty; nothing was asked: is there a variable, or a command, that it should come from?"
        )));
    }
    Ok(())
}

/// What to say of a resource whose id looks like a list of resources. A comma may stand in an id, so it is taken as it is.
pub(super) fn comma_hint(flag: &str, resource: &Resource) -> Option<String> {
    let Resource { kind, id } = resource;
    let (first, rest) = id.split_once(',')?;
    let (next, _) = rest.trim_start().split_once('/')?;
    let like_a_kind = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if next.is_empty() || !next.chars().all(like_a_kind) {
        return None;
    }
    Some(plain(&format!(
        "{flag} {kind}/{id} is one resource, {kind} with the id `{id}`, for a comma may be a part of an id; if several are \
         meant, repeat the flag: {flag} {kind}/{first} {flag} {}",
        rest.trim_start()
    )))
}

/// Says so of each of them.
pub(super) fn hint_at_commas(also: &[Resource]) {
    for hint in also.iter().filter_map(|one| comma_hint("--also", one)) {
        say(&format!("fencepost: {hint}\n"));
    }
}

/// The token of a reservation.
pub(super) fn token(text: &str) -> Result<i64, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a token; give the number that `reserve` answered"))
}

/// The id of an attempt.
pub(super) fn request_id(text: &str) -> Result<Uuid, String> {
    text.parse().map_err(|_| {
        format!("`{text}` is not a UUID; give that of the attempt to repeat, or leave it out")
    })
}

/// A point in time.
pub(super) fn moment(text: &str) -> Result<Timestamp, String> {
    rfc3339::timestamp(text)
        .ok_or_else(|| format!("`{text}` is not a time such as 2026-01-31T12:00:00Z"))
}

/// `name=value`.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err(format!("`{text}` is not name=value")),
    }
}

/// `name: value`.
pub(super) fn header(text: &str) -> Result<Header, String> {
    match text.split_once(':') {
        Some((name, value)) if !name.is_empty() => Ok(Header {
            name: name.to_owned(),
            value: value.strip_prefix(' ').unwrap_or(value).to_owned(),
        }),
        Some(_) | None => Err(format!("`{text}` is not name:value")),
    }
}

/// Bytes in hexadecimal.
pub(super) fn hex(text: &str) -> Result<Bytes, String> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| {
            digit
                .to_digit(16)
                .and_then(|value| u8::try_from(value).ok())
        })
        .collect();
    match digits {
        Some(digits) if !digits.is_empty() && digits.len() % 2 == 0 => Ok(digits
            .chunks_exact(2)
            .map(|two| two[0] << 4 | two[1])
            .collect()),
        Some(_) | None => Err("must be an even number of hexadecimal digits".into()),
    }
}

/// Collects pairs; a name may be given once.
pub(super) fn unique(
    flag: &str,
    pairs: &[(String, String)],
) -> Result<BTreeMap<String, String>, Trouble> {
    let mut named = BTreeMap::new();
    for (name, value) in pairs {
        if named.insert(name.clone(), value.clone()).is_some() {
            return Err(Trouble::usage(format!(
                "{flag} gives `{name}` twice; give it once"
            )));
        }
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_text_a_file_or_standard_input() {
        assert_eq!(Source::parse("{}"), Ok(Source::Text("{}".into())));
        assert_eq!(Source::parse(""), Ok(Source::Text(String::new())));
        assert_eq!(Source::parse("-"), Ok(Source::Stdin));
        assert_eq!(Source::parse("@a b"), Ok(Source::File("a b".into())));
        assert_eq!(Source::parse("@@home"), Ok(Source::Text("@home".into())));
        assert!(Source::parse("@").is_err());
    }

    #[test]
    fn a_value_may_hold_the_sign_that_ends_the_name() {
        assert_eq!(pair("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert_eq!(pair("a="), Ok(("a".into(), String::new())));
        assert!(pair("=b").is_err());
        assert!(pair("ab").is_err());
        assert_eq!(header("Location: http://x").unwrap().value, "http://x");
    }

    #[test]
    fn what_is_empty_is_told_in_words_and_a_list_of_resources_is_hinted_at() {
        assert!(not_empty("ID", "a").is_ok());
        assert!(
            not_empty("ID", "")
                .unwrap_err()
                .message
                .starts_with("ID is empty")
        );
        let hint = |text: &str| comma_hint("--also", &resource(text).unwrap());
        assert!(
            hint("seat/1,seat/2")
                .unwrap()
                .ends_with("repeat the flag: --also seat/1 --also seat/2")
        );
        assert!(hint("seat/1, room/2,room/3").is_some());
        for one in ["seat/1", "seat/1,2", "seat/a, b c/d", "seat/,/x"] {
            assert_eq!(hint(one), None, "{one}");
        }
    }

    #[test]
    fn a_name_given_twice_is_refused() {
        let twice = [("a".into(), "1".into()), ("a".into(), "2".into())];
        assert!(
            unique("--identity", &twice)
                .unwrap_err()
                .message
                .contains("--identity")
        );
    }

    #[test]
    fn what_is_no_token_and_no_uuid_is_told_in_words() {
        assert_eq!(token("-1"), Ok(-1));
        assert!(token("abc").unwrap_err().contains("`reserve` answered"));
        assert!(request_id("abc").unwrap_err().contains("not a UUID"));
        assert!(request_id("6f1c2c0e-4d0f-4a0c-9f65-0a4f7d1f3a11").is_ok());
    }

    #[test]
    fn hexadecimal_reads_either_case_and_refuses_halves() {
        assert_eq!(hex("00fFa1"), Ok(Bytes::from_static(&[0, 255, 0xa1])));
        for wrong in ["", "f", "0g", "é1"] {
            assert!(hex(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_source_larger_than_a_content_may_be_is_refused_before_it_is_sent() {
        let endless = std::io::repeat(b'x');
        assert!(
            bounded(endless, "it")
                .unwrap_err()
                .message
                .contains("--digest")
        );
    }
}
