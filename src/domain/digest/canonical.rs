//! The canonical form of a JSON value. The text that fixes it is the head of the module `digest`.
use super::json::Json;

/// No other hash in the project begins with these bytes, so a form cannot pass for something else.
const PREFIX: &[u8] = b"fencepost:json:v1\n";

/// The bytes to be hashed.
pub(super) fn form(value: &Json<'_>) -> Vec<u8> {
    let mut out = PREFIX.to_vec();
    write(value, &mut out);
    out
}

/// The bytes to be hashed where only parts count. The parts stand in the order of their pointers' bytes.
pub(super) fn form_of_parts(parts: &[(&str, &Json<'_>)]) -> Vec<u8> {
    let mut out = PREFIX.to_vec();
    out.push(b'&');
    for (pointer, part) in parts {
        write_string(pointer, &mut out);
        write(part, &mut out);
    }
    out.push(b';');
    out
}

/// The form of a value alone.
pub(super) fn bare_form(value: &Json<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    write(value, &mut out);
    out
}

/// Recursion is bounded: no value is deeper than the reader lets through.
fn write(value: &Json<'_>, out: &mut Vec<u8>) {
    match value {
        Json::Null => out.push(b'n'),
        Json::Bool(false) => out.push(b'f'),
        Json::Bool(true) => out.push(b't'),
        Json::Number(decimal) => {
            out.push(b'#');
            if decimal.is_negative() {
                out.push(b'-');
            }
            out.extend(decimal.digits());
            out.push(b'e');
            out.extend_from_slice(decimal.exponent().to_string().as_bytes());
            out.push(b';');
        }
        Json::String(text) => write_string(text, out),
        Json::Array(elements) => {
            out.push(b'[');
            for element in elements {
                write(element, out);
            }
            out.push(b']');
        }
        Json::Object(members) => {
            out.push(b'{');
            for member in members {
                if matches!(member.value, Json::LeftOut) {
                    continue;
                }
                write_string(&member.name, out);
                write(&member.value, out);
            }
            out.push(b'}');
        }
        Json::LeftOut => {}
    }
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(text.len().to_string().as_bytes());
    out.push(b':');
    out.extend_from_slice(text.as_bytes());
}
