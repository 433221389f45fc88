//! JSON Pointers (RFC 6901): the names of parts of a content.

use std::fmt;

use super::json::Json;
use crate::domain::invalid::Invalid;
use crate::domain::machine::{LIST_ITEMS_MAX, POINTER_BYTES_MAX};

/// A pointer to a part of a content, never to all of it. Ordered by its bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pointer(String);

impl Pointer {
    /// Reads one that was written by hand.
    fn parse(text: &str) -> Result<Self, Invalid> {
        let shown = || text.chars().take(64).collect::<String>();
        if text.len() > POINTER_BYTES_MAX {
            return Err(Invalid::new(format!(
                "has a JSON Pointer of {} bytes; the limit is {POINTER_BYTES_MAX}: point to a part above it",
                text.len()
            )));
        }
        if !text.starts_with('/') {
            return Err(Invalid::new(format!(
                "has the JSON Pointer {:?}, which does not begin with a slash",
                shown()
            )));
        }
        let mut escapes = text.split('~').skip(1);
        if !escapes.all(|rest| rest.starts_with(['0', '1'])) {
            return Err(Invalid::new(format!(
                "has the JSON Pointer {:?}, with a ~ that means nothing: write ~0 for ~ and ~1 for / inside a name",
                shown()
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// Reads a rule's pointers: in the order of their bytes, none naming what another one names already.
    pub(super) fn parse_all(texts: &[String]) -> Result<Vec<Self>, Invalid> {
        if texts.is_empty() || texts.len() > LIST_ITEMS_MAX {
            return Err(Invalid::new(format!(
                "has {} JSON Pointers; give 1 to {LIST_ITEMS_MAX}",
                texts.len()
            )));
        }
        let mut pointers = texts
            .iter()
            .map(|text| Self::parse(text))
            .collect::<Result<Vec<_>, _>>()?;
        pointers.sort();
        for inner in &pointers {
            let covers = |outer: &&Self| {
                let rest = inner.0.strip_prefix(&outer.0);
                rest.is_some_and(|rest| rest.starts_with('/'))
            };
            let twice = pointers.iter().filter(|other| *other == inner).count() > 1;
            if twice || pointers.iter().any(|outer| covers(&outer)) {
                return Err(Invalid::new(format!(
                    "has the JSON Pointer {inner}, which another one names already"
                )));
            }
        }
        Ok(pointers)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The names on the way, unescaped.
    fn steps(&self) -> impl Iterator<Item = String> {
        let steps = self.0.split('/').skip(1);
        steps.map(|step| step.replace("~1", "/").replace("~0", "~"))
    }

    /// The part that it names, if there is one.
    pub(super) fn find<'j, 'a>(&self, whole: &'j Json<'a>) -> Option<&'j Json<'a>> {
        self.steps().try_fold(whole, |part, step| match part {
            Json::Object(members) => {
                let at = members.binary_search_by(|member| (*member.name).cmp(&*step));
                at.ok().map(|at| &members[at].value)
            }
            Json::Array(elements) => elements.get(index(&step)?),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::LeftOut => None,
        })
    }

    /// Leaves out the part that it names, if there is one.
    pub(super) fn leave_out(&self, whole: &mut Json<'_>) {
        let found = self.steps().try_fold(whole, |part, step| match part {
            Json::Object(members) => {
                let at = members.binary_search_by(|member| (*member.name).cmp(&*step));
                at.ok().map(|at| &mut members[at].value)
            }
            Json::Array(elements) => elements.get_mut(index(&step)?),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::LeftOut => None,
        });
        if let Some(part) = found {
            *part = Json::LeftOut;
        }
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// An element is named by its number, written without leading zeros.
fn index(step: &str) -> Option<usize> {
    let digits = step.bytes().all(|byte| byte.is_ascii_digit());
    let leading_zero = step.len() > 1 && step.starts_with('0');
    (digits && !leading_zero)
        .then(|| step.parse().ok())
        .flatten()
}

/// Adds a step to the text of a pointer.
pub(super) fn push_step(pointer: &mut String, name: &str) {
    pointer.push('/');
    for character in name.chars() {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            other => pointer.push(other),
        }
    }
}

/// The pointer itself, or the nearest one above it that is short enough to be told.
pub(super) fn short_enough(pointer: &str) -> &str {
    let mut short = pointer;
    while short.len() > POINTER_BYTES_MAX {
        short = short.rsplit_once('/').map_or("", |(above, _)| above);
    }
    short
}
