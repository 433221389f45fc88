//! A strict reader of JSON texts that keeps what a digest needs.
//!
//! `serde_json` reads numbers into floats and lets the last of two equal names win; to keep their text it would have to
//! scan each level anew. So brackets and numbers are read here, in one pass and with exact positions, and `serde_json`
//! undoes the escapes in strings. A property test holds the grammar against `serde_json`.
use std::borrow::Cow;
use std::fmt;

use super::decimal::Decimal;

/// The most arrays and objects around one value.
pub const LEVELS_MAX: usize = 100;

/// A JSON value that has a digest.
#[derive(Debug)]
pub(super) enum Json<'a> {
    Null,
    Bool(bool),
    Number(Decimal<'a>),
    String(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    /// In the order of names; no two names are equal.
    Object(Vec<Member<'a>>),
    /// What stood here does not count.
    LeftOut,
}

/// A member of an object.
#[derive(Debug)]
pub(super) struct Member<'a> {
    at: usize,
    pub(super) name: Cow<'a, str>,
    pub(super) value: Json<'a>,
}

/// Where a text stops being JSON that has a digest, and why.
#[derive(Debug)]
pub(super) struct Fault {
    at: usize,
    what: Cow<'static, str>,
}

impl Fault {
    pub(super) fn new(at: usize, what: impl Into<Cow<'static, str>>) -> Self {
        Self {
            at,
            what: what.into(),
        }
    }

    /// The fault of a part, seen from the whole.
    fn moved_by(self, offset: usize) -> Self {
        Self {
            at: self.at + offset,
            ..self
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "is not valid JSON at byte {}: {}", self.at, self.what)
    }
}

impl<'a> Json<'a> {
    /// What is directly in it, each with its name; an element is named by its number.
    pub(super) fn parts(&self) -> impl Iterator<Item = (Cow<'_, str>, &Self)> {
        let (members, elements) = match self {
            Self::Object(members) => (&members[..], &[][..]),
            Self::Array(elements) => (&[][..], &elements[..]),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) | Self::LeftOut => {
                (&[][..], &[][..])
            }
        };
        let members = members
            .iter()
            .map(|member| (Cow::Borrowed(&*member.name), &member.value));
        let elements = elements
            .iter()
            .enumerate()
            .map(|(at, element)| (Cow::Owned(at.to_string()), element));
        members
            .chain(elements)
            .filter(|(_, part)| !matches!(part, Self::LeftOut))
    }

    /// Whether it is more than an empty form to be filled in.
    pub(super) fn says_something(&self) -> bool {
        match self {
            Self::Null | Self::LeftOut => false,
            Self::String(text) => !text.is_empty(),
            Self::Bool(_) | Self::Number(_) => true,
            Self::Array(_) | Self::Object(_) => self.parts().next().is_some(),
        }
    }

    /// Reads a whole text.
    pub(super) fn read(text: &'a [u8]) -> Result<Self, Fault> {
        let text = std::str::from_utf8(text)
            .map_err(|error| Fault::new(error.valid_up_to(), "invalid UTF-8"))?;
        if text.starts_with('\u{feff}') {
            return Err(Fault::new(0, "a byte order mark is not allowed"));
        }
        let mut reader = Reader {
            text,
            at: 0,
            levels: 0,
        };
        let value = reader.value()?;
        reader.skip_space();
        match reader.peek() {
            None => Ok(value),
            Some(_) => Err(reader.fault("the value is complete, but more text follows")),
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    // Always a character boundary: it only ever passes whole ASCII bytes and whole strings.
    at: usize,
    levels: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self) -> Result<Json<'a>, Fault> {
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => {
                let (decimal, length) = Decimal::read(&self.text[self.at..])
                    .map_err(|fault| fault.moved_by(self.at))?;
                self.at += length;
                Ok(Json::Number(decimal))
            }
            Some(b'n') => self.literal("null", Json::Null),
            Some(b'f') => self.literal("false", Json::Bool(false)),
            Some(b't') => self.literal("true", Json::Bool(true)),
            Some(_) => Err(self.fault("a value is expected")),
            None => Err(self.fault("the text ends where a value is expected")),
        }
    }

    fn literal(&mut self, word: &str, value: Json<'a>) -> Result<Json<'a>, Fault> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.fault("a value is expected"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn array(&mut self) -> Result<Json<'a>, Fault> {
        self.enter()?;
        let mut elements = Vec::new();
        if !self.closes(b']') {
            // A text may be nothing but arrays of one: the room for four that a vector begins with would add up.
            elements.reserve_exact(1);
            loop {
                elements.push(self.value()?);
                if self.closes(b']') {
                    break;
                }
                self.expect(b',', "`,` or `]` is expected")?;
            }
        }
        self.levels -= 1;
        Ok(Json::Array(elements))
    }

    fn object(&mut self) -> Result<Json<'a>, Fault> {
        self.enter()?;
        let mut members = Vec::new();
        if !self.closes(b'}') {
            members.reserve_exact(1);
            loop {
                members.push(self.member()?);
                if self.closes(b'}') {
                    break;
                }
                self.expect(b',', "`,` or `}` is expected")?;
            }
        }
        self.levels -= 1;
        in_order_of_names(members).map(Json::Object)
    }

    fn member(&mut self) -> Result<Member<'a>, Fault> {
        self.skip_space();
        if self.peek() != Some(b'"') {
            return Err(self.fault("a member name in double quotes is expected"));
        }
        let at = self.at;
        let name = self.string()?;
        self.skip_space();
        self.expect(b':', "`:` is expected")?;
        Ok(Member {
            at,
            name,
            value: self.value()?,
        })
    }

    /// Reads the string whose opening quote is next.
    fn string(&mut self) -> Result<Cow<'a, str>, Fault> {
        let text = self.text;
        let opening = self.at;
        let mut end = opening + 1;
        let mut escaped = false;
        loop {
            match text.as_bytes().get(end) {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    // These two, if escaped, neither close the string nor escape the next byte.
                    let pair = matches!(text.as_bytes().get(end + 1), Some(b'"' | b'\\'));
                    end += 1 + usize::from(pair);
                }
                Some(0..0x20) => {
                    return Err(Fault::new(
                        end,
                        "a control character in a string must be escaped",
                    ));
                }
                Some(_) => end += 1,
                None => return Err(Fault::new(text.len(), "the text ends inside a string")),
            }
        }
        self.at = end + 1;
        if escaped {
            return unescape(&text[opening..self.at])
                .map(Cow::Owned)
                .map_err(|fault| fault.moved_by(opening));
        }
        Ok(Cow::Borrowed(&text[opening + 1..end]))
    }

    fn enter(&mut self) -> Result<(), Fault> {
        if self.levels == LEVELS_MAX {
            return Err(self.fault(format!("more than {LEVELS_MAX} levels of nesting")));
        }
        self.levels += 1;
        self.at += 1;
        Ok(())
    }

    /// Passes `bracket` if it is the next thing.
    fn closes(&mut self, bracket: u8) -> bool {
        self.skip_space();
        let closes = self.peek() == Some(bracket);
        self.at += usize::from(closes);
        closes
    }

    fn expect(&mut self, byte: u8, otherwise: &'static str) -> Result<(), Fault> {
        if self.peek() != Some(byte) {
            return Err(self.fault(otherwise));
        }
        self.at += 1;
        Ok(())
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn fault(&self, what: impl Into<Cow<'static, str>>) -> Fault {
        Fault::new(self.at, what)
    }
}

/// `str` compares bytewise, which is the order of the contract. Of equal names the second in the text is at fault.
fn in_order_of_names(mut members: Vec<Member<'_>>) -> Result<Vec<Member<'_>>, Fault> {
    members.sort_by(|left, right| left.name.cmp(&right.name));
    let repeated = members
        .windows(2)
        .filter(|pair| pair[0].name == pair[1].name);
    match repeated.map(|pair| pair[1].at).min() {
        Some(at) => Err(Fault::new(at, "duplicate member name")),
        None => Ok(members),
    }
}

/// `quoted` is a string with its quotes. It has no line breaks, so the column says how many bytes were read.
fn unescape(quoted: &str) -> Result<String, Fault> {
    serde_json::from_str(quoted).map_err(|error| {
        let at = error.column().saturating_sub(1);
        Fault::new(at, "an escape that JSON does not have, or a lone surrogate")
    })
}
