//! A YAML text as a tree in which every node knows its place.
//!
//! Machine files are law, so only the plain part of YAML is taken: one document, mappings with unique scalar keys, lists and
//! scalars. Anchors, aliases and tags are refused: what is in force must be readable where it stands, and an alias could
//! make a small file unfold into a huge one.

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, StrInput};

use super::finding::{Findings, Rule, quoted};
use super::place::Place;

/// How deep lists and mappings may lie in each other. Machine files need five.
pub const DEPTH_MAX: usize = 16;

/// What a node is.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// A text. `plain`: without quotes, so that it may stand for a number or for nothing.
    Scalar { text: String, plain: bool },
    /// A list.
    List(Vec<Node>),
    /// A mapping, in the order of the file. No key comes twice.
    Map(Vec<(Key, Node)>),
}

/// A node and where it begins.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) content: Content,
    pub(super) place: Place,
}

/// A key and where it was written.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) text: String,
    pub(super) place: Place,
}

impl Node {
    /// What it is, for people.
    pub(super) fn sort(&self) -> String {
        match &self.content {
            Content::Scalar { .. } if self.is_empty() => "empty".to_owned(),
            Content::Scalar { text, .. } => quoted(text),
            Content::List(_) => "a list".to_owned(),
            Content::Map(_) => "a mapping".to_owned(),
        }
    }

    /// Nothing, `~` or `null`.
    pub(super) fn is_empty(&self) -> bool {
        match &self.content {
            Content::Scalar { text, plain } => {
                *plain && matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL")
            }
            Content::List(_) | Content::Map(_) => false,
        }
    }
}

/// Reads a text. `None`: it could not be read to its end, and a finding says why.
pub(super) fn parse(text: &str, findings: &mut Findings) -> Option<Node> {
    let mut reader = Reader {
        events: Parser::new_from_str(text),
        end: end(text),
        findings,
    };
    match reader.document() {
        Ok(node) => node,
        Err(stop) => {
            findings.error(Rule::Yaml, stop.place, stop.what, stop.fix);
            None
        }
    }
}

/// Where a text ends.
fn end(text: &str) -> Place {
    let unified = text.replace("\r\n", "\n");
    let lines = || unified.split(['\n', '\r']);
    let last = lines().next_back().unwrap_or_default();
    Place {
        line: lines().count(),
        column: last.chars().count() + 1,
    }
}

/// Why reading went no further.
struct Stop {
    place: Place,
    what: String,
    fix: String,
}

impl Stop {
    fn new(place: Place, what: &str, fix: &str) -> Self {
        Self {
            place,
            what: what.to_owned(),
            fix: fix.to_owned(),
        }
    }
}

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    end: Place,
    findings: &'a mut Findings,
}

impl<'a> Reader<'a> {
    fn document(&mut self) -> Result<Option<Node>, Stop> {
        let mut root = None;
        loop {
            let Some((event, place)) = self.next()? else {
                return Ok(root);
            };
            match event {
                Event::StreamEnd => return Ok(root),
                Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
                Event::DocumentStart(_) if root.is_some() => {
                    return Err(Stop::new(
                        place,
                        "a second document begins here",
                        "write one machine in each file",
                    ));
                }
                Event::DocumentStart(_) => {}
                Event::Alias(_)
                | Event::Scalar(..)
                | Event::SequenceStart(..)
                | Event::SequenceEnd
                | Event::MappingStart(..)
                | Event::MappingEnd => root = Some(self.node(event, place, 0)?),
            }
        }
    }

    fn next(&mut self) -> Result<Option<(Event<'a>, Place)>, Stop> {
        let Some(event) = self.events.next_event() else {
            return Ok(None);
        };
        match event {
            Ok((event, span)) => Ok(Some((event, self.place(span.start)))),
            Err(error) => Err(Stop {
                place: self.place(*error.marker()),
                what: format!("this is not YAML: {}", error.info()),
                fix: "look for indentation, a missing colon or quote, or a tab, here or shortly before"
                    .to_owned(),
            }),
        }
    }

    /// What is missed at the end of a text is found one line below it by the parser, where no editor goes.
    fn place(&self, marker: Marker) -> Place {
        let place = Place {
            line: marker.line().max(1),
            column: marker.col() + 1,
        };
        if place.line > self.end.line {
            self.end
        } else {
            place
        }
    }

    /// The next event of a list or mapping that is open; the parser itself refuses one that is never closed.
    fn inner(&mut self, open: Place) -> Result<(Event<'a>, Place), Stop> {
        self.next()?.ok_or_else(|| {
            Stop::new(
                open,
                "what begins here never ends",
                "close the list or mapping",
            )
        })
    }

    fn node(&mut self, event: Event<'a>, place: Place, depth: usize) -> Result<Node, Stop> {
        if depth > DEPTH_MAX {
            return Err(Stop::new(
                place,
                &format!("lists and mappings lie more than {DEPTH_MAX} deep in each other"),
                "a machine file needs no more than five; look for a stray bracket",
            ));
        }
        let content = match event {
            Event::Scalar(text, style, anchor, tag) => {
                plain_yaml(anchor, tag.is_some(), place)?;
                Content::Scalar {
                    text: text.into_owned(),
                    plain: style == ScalarStyle::Plain,
                }
            }
            Event::SequenceStart(anchor, tag) => {
                plain_yaml(anchor, tag.is_some(), place)?;
                self.list(place, depth)?
            }
            Event::MappingStart(anchor, tag) => {
                plain_yaml(anchor, tag.is_some(), place)?;
                self.map(place, depth)?
            }
            Event::Alias(_) => {
                return Err(Stop::new(
                    place,
                    "an alias (*name) stands here",
                    "write the value itself: a machine is read where it stands",
                ));
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => {
                return Err(Stop::new(
                    place,
                    "a value should stand here",
                    "write one, or close the list or mapping before",
                ));
            }
        };
        Ok(Node { content, place })
    }

    fn list(&mut self, open: Place, depth: usize) -> Result<Content, Stop> {
        let mut items = Vec::new();
        loop {
            let (event, place) = self.inner(open)?;
            if event == Event::SequenceEnd {
                return Ok(Content::List(items));
            }
            items.push(self.node(event, place, depth + 1)?);
        }
    }

    fn map(&mut self, open: Place, depth: usize) -> Result<Content, Stop> {
        let mut entries: Vec<(Key, Node)> = Vec::new();
        // Looking a key up must not cost more the more there are.
        let mut seen = std::collections::HashMap::new();
        loop {
            let (event, place) = self.inner(open)?;
            if event == Event::MappingEnd {
                return Ok(Content::Map(entries));
            }
            let key = self.node(event, place, depth + 1)?;
            let Content::Scalar { text, .. } = key.content else {
                return Err(Stop::new(
                    place,
                    "a list or mapping stands where a key should",
                    "write a name, then a colon",
                ));
            };
            let (event, value_place) = self.inner(open)?;
            let value = self.node(event, value_place, depth + 1)?;
            if let Some(first) = seen.get(&text) {
                self.findings.error(
                    Rule::Duplicate,
                    place,
                    format!("{} is said twice; the first is at {first}", quoted(&text)),
                    "remove one of them: only one can hold",
                );
                continue;
            }
            seen.insert(text.clone(), place);
            entries.push((Key { text, place }, value));
        }
    }
}

fn plain_yaml(anchor: usize, tagged: bool, place: Place) -> Result<(), Stop> {
    if anchor != 0 {
        return Err(Stop::new(
            place,
            "an anchor (&name) stands here",
            "remove it, and write what refers to it in full",
        ));
    }
    if tagged {
        return Err(Stop::new(
            place,
            "a tag (!name) stands here",
            "remove it: what a value is follows from its key",
        ));
    }
    Ok(())
}
