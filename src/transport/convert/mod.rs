//! The only reader of protobuf fields. What comes out has been checked; what is refused names the path of its field.

pub(super) mod answer;
pub(super) mod ask;
pub(super) mod counts;
pub(super) mod incident;
mod intent;
pub(super) mod machine;
pub(super) mod machine_page;
pub(super) mod page;
mod page_token;
pub(super) mod queue;
mod result;
mod span;
pub(super) mod story;
pub(super) mod stream;
pub(super) mod timeline;
mod together;
pub(super) mod wait;

use crate::domain::invalid::Invalid;
use crate::engine::Fault;

/// Longest name of a caller that an error repeats, in characters. A message travels in a header, and a name over its limit
/// may be as long as the whole request.
const NAME_CHARS_SHOWN_MAX: usize = 64;

/// Names the field of what was refused.
fn at<T>(field: &str, parsed: Result<T, Invalid>) -> Result<T, Fault> {
    parsed.map_err(|invalid| refused(field, invalid.to_string()))
}

/// A field that can never work as sent.
pub(super) fn refused(field: impl Into<String>, reason: impl Into<String>) -> Fault {
    Fault::InvalidField {
        field: field.into(),
        reason: reason.into(),
    }
}

/// A name out of a request, fit to be shown in an error.
pub(super) fn shown(name: &str) -> String {
    let mut shown: String = name
        .chars()
        .take(NAME_CHARS_SHOWN_MAX)
        .flat_map(char::escape_debug)
        .collect();
    if name.chars().nth(NAME_CHARS_SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Absent on the wire is the empty text.
fn present(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
