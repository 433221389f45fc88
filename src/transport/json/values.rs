//! Single values of proto3 JSON, read by its mapping and no more widely. The library that knows the descriptors is laxer: it
//! cuts off digits, takes large numbers through floats, and passes over what base64 text says beside whole bytes.

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use prost_reflect::{DynamicMessage, Kind, MessageDescriptor, Value};

use super::super::rfc3339;

/// The type of durations.
pub(super) const DURATION: &str = "google.protobuf.Duration";
/// The type of points in time.
pub(super) const TIMESTAMP: &str = "google.protobuf.Timestamp";
/// Most digits of a part of a second.
const NANOS_DIGITS: usize = 9;
/// Most digits of a whole number that fits into 64 bits.
const INTEGER_DIGITS_MAX: usize = 19;

/// Padding may be there or not; bits beside the last whole byte must be zero, or the text was cut or mistyped.
const BASE64: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const BASE64_STANDARD: GeneralPurpose = GeneralPurpose::new(&STANDARD, BASE64);
const BASE64_URL_SAFE: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, BASE64);

/// Reads a value of a kind that is read here. `None`: it is read elsewhere. `Some(None)`: it is none of this kind.
pub(super) fn read(kind: &Kind, json: &str) -> Option<Option<Value>> {
    Some(match kind {
        Kind::Bytes => bytes(json).map(Value::Bytes),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => whole(json).map(Value::I32),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => whole(json).map(Value::I64),
        Kind::Uint32 | Kind::Fixed32 => whole(json).map(Value::U32),
        Kind::Uint64 | Kind::Fixed64 => whole(json).map(Value::U64),
        Kind::Message(nested) if nested.full_name() == DURATION => {
            span(nested, json).map(Value::Message)
        }
        Kind::Message(nested) if nested.full_name() == TIMESTAMP => {
            moment(nested, json).map(Value::Message)
        }
        Kind::Double
        | Kind::Float
        | Kind::Bool
        | Kind::String
        | Kind::Message(_)
        | Kind::Enum(_) => return None,
    })
}

/// Reads `"AQI="`, in either alphabet.
fn bytes(json: &str) -> Option<Bytes> {
    let text: String = serde_json::from_str(json).ok()?;
    let url_safe = text.contains(['-', '_']);
    let engine = if url_safe {
        &BASE64_URL_SAFE
    } else {
        &BASE64_STANDARD
    };
    engine.decode(text).map(Bytes::from).ok()
}

/// Reads `12`, `"12"` or `1.2e1`.
fn whole<N: TryFrom<i128>>(json: &str) -> Option<N> {
    let inside = json
        .starts_with('"')
        .then(|| serde_json::from_str::<String>(json));
    let text = match inside {
        Some(text) => text.ok()?,
        None => json.to_owned(),
    };
    // In a string, too, it has to be a number as JSON writes it: no sign before a plus, no zero before a digit, no space.
    let number = text.starts_with(|sign: char| sign == '-' || sign.is_ascii_digit());
    if !number || text.ends_with(|sign: char| sign.is_ascii_whitespace()) {
        return None;
    }
    serde_json::from_str::<&serde_json::value::RawValue>(&text).ok()?;
    N::try_from(exactly(&text)?).ok()
}

/// The value of a sound JSON number, if it is whole and not beyond 64 bits by far.
fn exactly(number: &str) -> Option<i128> {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => (true, mantissa),
        None => (false, mantissa),
    };
    let (before, behind) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{before}{behind}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    // How many zeros follow the digits; fewer than none means that so many of them stand behind the point.
    let zeros = exponent
        .parse::<i64>()
        .ok()?
        .checked_sub(i64::try_from(behind.len()).ok()?)?;
    let value = match usize::try_from(zeros) {
        Ok(zeros) if digits.len().checked_add(zeros)? <= INTEGER_DIGITS_MAX => {
            format!("{digits}{:0<zeros$}", "")
        }
        Ok(_) => return None,
        Err(_) => {
            let parts = usize::try_from(zeros.checked_neg()?).ok()?;
            let whole = digits.len().checked_sub(parts).filter(|whole| *whole > 0)?;
            let (whole, parts) = digits.split_at(whole);
            if whole.len() > INTEGER_DIGITS_MAX || parts.contains(|digit| digit != '0') {
                return None;
            }
            whole.to_owned()
        }
    };
    let value: i128 = value.parse().ok()?;
    Some(if negative { -value } else { value })
}

/// Reads `"1.5s"`. Not by the library, which knows no more than 10,000 years: what is too long is refused by the limit of the
/// call that it was sent to, in the same words through both doors.
fn span(duration: &MessageDescriptor, json: &str) -> Option<DynamicMessage> {
    let text: String = serde_json::from_str(json).ok()?;
    let number = text.strip_suffix('s')?;
    let (sign, number) = match number.strip_prefix('-') {
        Some(number) => (-1, number),
        None => (1, number),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > NANOS_DIGITS {
        return None;
    }
    // Of digits alone only a number too large cannot be read, and the largest is as far beyond every limit.
    let seconds = whole.parse().unwrap_or(i64::MAX);
    let nanos: i32 = format!("{part:0<NANOS_DIGITS$}").parse().ok()?;
    Some(seconds_and_nanos(
        duration,
        i64::from(sign) * seconds,
        sign * nanos,
    ))
}

/// Reads `"2026-01-31T12:00:00Z"`.
fn moment(timestamp: &MessageDescriptor, json: &str) -> Option<DynamicMessage> {
    let text: String = serde_json::from_str(json).ok()?;
    let read = rfc3339::timestamp(&text)?;
    Some(seconds_and_nanos(timestamp, read.seconds, read.nanos))
}

fn seconds_and_nanos(descriptor: &MessageDescriptor, seconds: i64, nanos: i32) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    message.set_field_by_name("seconds", Value::I64(seconds));
    message.set_field_by_name("nanos", Value::I32(nanos));
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_is_read_exactly_in_every_form_that_json_has_for_it() {
        let good = [
            ("0", 0),
            ("-0", 0),
            ("\"-0\"", 0),
            ("0e999999999999", 0),
            ("12", 12),
            ("\"12\"", 12),
            ("1.2e1", 12),
            ("\"1.2e1\"", 12),
            ("1200E-2", 12),
            ("12.000", 12),
            ("9007199254740993", 9_007_199_254_740_993),
            ("9007199254740993.0", 9_007_199_254_740_993),
            ("9223372036854775807", i64::MAX),
            ("\"-9223372036854775808\"", i64::MIN),
        ];
        for (json, value) in good {
            assert_eq!(whole::<i64>(json), Some(value), "{json}");
        }
        for json in [
            "1.5",
            "0.1",
            "12e-2",
            "9007199254740992.5",
            "9223372036854775808",
            "-9223372036854775809",
            "1e19",
            "1e999999999",
            "1e99999999999999999999",
            "\"\"",
            "\" 1\"",
            "\"1 \"",
            "\"1\\n\"",
            "\"+1\"",
            "\"01\"",
            "\"1.\"",
            "\".5\"",
            "\"0x10\"",
            "\"NaN\"",
            "\"Infinity\"",
            "\"1,000\"",
            "true",
            "[1]",
            "{}",
        ] {
            assert_eq!(whole::<i64>(json), None, "{json}");
        }
        assert_eq!(whole::<i32>("2147483647"), Some(i32::MAX));
        assert_eq!(whole::<i32>("2147483648"), None);
    }

    #[test]
    fn bytes_come_in_either_alphabet_padded_or_not_and_whole() {
        for text in ["-_8=", "-_8", "+/8=", "+/8"] {
            let json = format!("\"{text}\"");
            assert_eq!(bytes(&json).as_deref(), Some(&[0xfb, 0xff][..]), "{text}");
        }
        assert_eq!(bytes("\"\"").as_deref(), Some(&[][..]));
        for text in [
            "-/8=", "+_8=", "+/9", "+/8==", "+/", "+", "=", " +/8=", "+/8=\\n", "e30 ", "é",
        ] {
            // Two characters are one byte and four bits beside it, which are not zero here.
            assert_eq!(bytes(&format!("\"{text}\"")), None, "{text}");
        }
        for json in ["1", "null", "[1,2]", "true"] {
            assert_eq!(bytes(json), None, "{json}");
        }
    }
}
