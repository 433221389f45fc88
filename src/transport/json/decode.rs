//! Proto3 JSON into a message, strictly: what is not understood is refused, with the path of the field and never its value.
//!
//! The library reads the values. The objects are walked here, so that an error can say where it is, and because a member
//! that comes twice would otherwise silently win over the first.

use std::collections::HashSet;
use std::fmt;

use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage as _,
};
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::engine::Fault;

use super::super::convert::{refused, shown};
use super::halves;
use super::values::{self, DURATION, TIMESTAMP};

/// Reads a request.
pub(super) fn message(
    descriptor: &MessageDescriptor,
    text: &[u8],
) -> Result<DynamicMessage, Fault> {
    let text = std::str::from_utf8(text).map_err(|_| refused("body", "is not UTF-8"))?;
    let text = if text.trim().is_empty() { "{}" } else { text };
    object(descriptor, text, "")
}

/// Reads the object at `path`.
fn object(descriptor: &MessageDescriptor, text: &str, path: &str) -> Result<DynamicMessage, Fault> {
    let mut message = DynamicMessage::new(descriptor.clone());
    let mut seen = HashSet::new();
    for (name, value) in members(text, path)? {
        let field = descriptor
            .get_field_by_json_name(&name)
            .or_else(|| descriptor.get_field_by_name(&name));
        let Some(field) = field else {
            return Err(refused(
                joined(path, &shown(&name)),
                "is not a field of this call",
            ));
        };
        let at = joined(path, field.name());
        if !seen.insert(field.number()) {
            return Err(refused(at, "comes twice"));
        }
        if value.get() == "null" {
            continue;
        }
        let other = field
            .containing_oneof()
            .and_then(|oneof| oneof.fields().find(|other| message.has_field(other)));
        if let Some(other) = other {
            return Err(refused(
                at,
                format!("cannot come together with {}", other.name()),
            ));
        }
        fill(&mut message, &field, value.get(), &at)?;
    }
    Ok(message)
}

/// Reads one field, whose JSON is sound.
fn fill(
    message: &mut DynamicMessage,
    field: &FieldDescriptor,
    value: &str,
    at: &str,
) -> Result<(), Fault> {
    if let Some(nested) = plain_message(field) {
        let nested = if field.is_list() {
            let elements: Vec<&RawValue> =
                serde_json::from_str(value).map_err(|_| not_taken(field, value, at))?;
            let element = |(index, element): (usize, &&RawValue)| {
                let read = object(&nested, element.get(), &format!("{at}[{index}]"))?;
                Ok(prost_reflect::Value::Message(read))
            };
            let read: Result<_, Fault> = elements.iter().enumerate().map(element).collect();
            prost_reflect::Value::List(read?)
        } else {
            prost_reflect::Value::Message(object(&nested, value, at)?)
        };
        message.set_field(field, nested);
        return Ok(());
    }
    if !field.is_list()
        && let Some(read) = values::read(&field.kind(), value)
    {
        let read = read.ok_or_else(|| not_taken(field, value, at))?;
        message.set_field(field, read);
        return Ok(());
    }
    if field.is_map() {
        let mut names = HashSet::new();
        for (name, _) in members(value, at)? {
            if names.contains(&name) {
                return Err(refused(
                    format!("{at}[\"{}\"]", shown(&name)),
                    "comes twice",
                ));
            }
            names.insert(name);
        }
    }
    // An object with this one member, which the library reads with all its rules.
    let alone = format!("{{\"{}\":{value}}}", field.json_name());
    let mut json = serde_json::Deserializer::from_str(&alone);
    let read = DynamicMessage::deserialize(message.descriptor(), &mut json)
        .map_err(|_| not_taken(field, value, at))?;
    if read.has_field(field) {
        message.set_field(field, read.get_field(field).into_owned());
    }
    Ok(())
}

/// The message type of a field that is an object with named fields, or a list of such objects.
fn plain_message(field: &FieldDescriptor) -> Option<MessageDescriptor> {
    let kind = field.kind();
    let nested = kind.as_message().filter(|_| !field.is_map())?;
    (!nested.full_name().starts_with("google.protobuf.")).then(|| nested.clone())
}

/// The members of the object at `path`, in the order in which they stand.
fn members<'a>(text: &'a str, path: &str) -> Result<Vec<(String, &'a RawValue)>, Fault> {
    let mut json = serde_json::Deserializer::from_str(text);
    let read = json
        .deserialize_map(Members)
        .and_then(|members| json.end().map(|()| members));
    read.map_err(|error| {
        let name = if path.is_empty() { "body" } else { path };
        // One within a value is found when that is read.
        if let Some(half) = halves::in_a_name(text).filter(|_| error.is_syntax()) {
            return refused(name, format!("has a name that {half}"));
        }
        match error.classify() {
            serde_json::error::Category::Data => refused(name, "must be a JSON object"),
            serde_json::error::Category::Io
            | serde_json::error::Category::Syntax
            | serde_json::error::Category::Eof => refused(
                name,
                format!(
                    "is not sound JSON at line {} column {}",
                    error.line(),
                    error.column()
                ),
            ),
        }
    })
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}

/// Why a value is not what its field takes.
fn not_taken(field: &FieldDescriptor, value: &str, at: &str) -> Fault {
    match halves::anywhere(value) {
        Some(half) => refused(at, half.to_string()),
        None => refused(at, expected(field)),
    }
}

/// What a field takes.
fn expected(field: &FieldDescriptor) -> &'static str {
    if field.is_map() {
        return "must be an object of strings";
    }
    if field.is_list() {
        return "must be an array of what the interface says";
    }
    match field.kind() {
        Kind::String => "must be a string",
        Kind::Bytes => "must be a string in base64, whole and without spaces",
        Kind::Bool => "must be true or false",
        Kind::Message(nested) if nested.full_name() == DURATION => {
            "must be a string of seconds with at most 9 digits behind the point, such as \"30s\" or \"1.5s\""
        }
        Kind::Message(nested) if nested.full_name() == TIMESTAMP => {
            "must be a time by RFC 3339 with at most 9 digits behind the point, such as \"2026-01-31T12:00:00Z\" or \
             \"2026-01-31T13:00:00.5+01:00\""
        }
        Kind::Int32
        | Kind::Int64
        | Kind::Uint32
        | Kind::Uint64
        | Kind::Sint32
        | Kind::Sint64
        | Kind::Fixed32
        | Kind::Fixed64
        | Kind::Sfixed32
        | Kind::Sfixed64 => "must be a whole number within its range, plain or as a string",
        Kind::Double | Kind::Float | Kind::Enum(_) | Kind::Message(_) => {
            "is not what the interface says"
        }
    }
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}
