//! JSON numbers as exact decimals: sign, digits and exponent, never a float and never expanded.
use super::json::Fault;

/// The most digits of an exponent, leading zeros aside: with the shift by a point in a text of bounded length it
/// always fits an `i64`.
const EXPONENT_DIGITS_MAX: usize = 18;

/// A number as digits × 10^exponent, in one way only.
#[derive(Debug)]
pub(super) struct Decimal<'a> {
    negative: bool,
    // Neither begins nor ends with `0`; may have the point of the text inside. Empty: the number is zero.
    mantissa: &'a str,
    exponent: i64,
}

impl<'a> Decimal<'a> {
    /// Reads the number that `text` begins with; says how many bytes it takes.
    pub(super) fn read(text: &'a str) -> Result<(Self, usize), Fault> {
        let negative = text.starts_with('-');
        let start = usize::from(negative);
        let mut end = digits_end(text, start)?;
        if end - start > 1 && text[start..].starts_with('0') {
            return Err(Fault::new(start, "a number has no leading zeros"));
        }
        let mut fraction_digits = 0;
        if text[end..].starts_with('.') {
            let point = end;
            end = digits_end(text, point + 1)?;
            fraction_digits = end - point - 1;
        }
        let mantissa = &text[start..end];
        let mut exponent = 0;
        if text[end..].starts_with(['e', 'E']) {
            let sign = end + 1;
            let below_zero = text[sign..].starts_with('-');
            let first = sign + usize::from(text[sign..].starts_with(['+', '-']));
            end = digits_end(text, first)?;
            exponent = parse_exponent(&text[first..end]).ok_or_else(|| {
                Fault::new(
                    first,
                    format!("an exponent has at most {EXPONENT_DIGITS_MAX} digits"),
                )
            })?;
            if below_zero {
                exponent = -exponent;
            }
        }
        Ok((
            Self::normal(negative, mantissa, fraction_digits, exponent),
            end,
        ))
    }

    fn normal(negative: bool, mantissa: &'a str, fraction_digits: usize, exponent: i64) -> Self {
        let mantissa = mantissa.trim_start_matches(['0', '.']);
        if mantissa.is_empty() {
            return Self {
                negative: false,
                mantissa,
                exponent: 0,
            };
        }
        let trimmed = mantissa.trim_end_matches(['0', '.']);
        let dropped = mantissa[trimmed.len()..]
            .bytes()
            .filter(|byte| *byte == b'0')
            .count();
        Self {
            negative,
            mantissa: trimmed,
            exponent: exponent - signed(fraction_digits) + signed(dropped),
        }
    }

    pub(super) fn is_negative(&self) -> bool {
        self.negative
    }

    /// The digits in ASCII; of zero one `0`.
    pub(super) fn digits(&self) -> impl Iterator<Item = u8> {
        let digits = if self.mantissa.is_empty() {
            "0"
        } else {
            self.mantissa
        };
        digits.bytes().filter(|byte| *byte != b'.')
    }

    pub(super) fn exponent(&self) -> i64 {
        self.exponent
    }
}

/// The end of the run of digits at `from`; there must be one.
fn digits_end(text: &str, from: usize) -> Result<usize, Fault> {
    let run = text.as_bytes()[from..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if run == 0 {
        return Err(Fault::new(from, "a digit is expected"));
    }
    Ok(from + run)
}

fn parse_exponent(digits: &str) -> Option<i64> {
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return Some(0);
    }
    if significant.len() > EXPONENT_DIGITS_MAX {
        return None;
    }
    significant.parse().ok()
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).expect("a count of digits in a content is far below 2^63")
}
