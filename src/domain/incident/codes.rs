//! Verdicts as numbers in what is stored.

use crate::domain::decision::Verdict;

/// A stable number for each verdict, as stored.
pub fn verdict_code(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Granted => 1,
        Verdict::Applied => 2,
        Verdict::Replayed => 3,
        Verdict::InProgress => 4,
        Verdict::Busy => 5,
        Verdict::Interrupted => 6,
        Verdict::Conflict => 7,
        Verdict::Superseded => 8,
        Verdict::OtherRound => 9,
        Verdict::TooEarly => 10,
        Verdict::Rejected => 12,
        Verdict::Fenced => 13,
        Verdict::Expired => 14,
    }
}

/// The verdict stored as this number.
pub fn verdict_from_code(code: u8) -> Option<Verdict> {
    match code {
        1 => Some(Verdict::Granted),
        2 => Some(Verdict::Applied),
        3 => Some(Verdict::Replayed),
        4 => Some(Verdict::InProgress),
        5 => Some(Verdict::Busy),
        6 => Some(Verdict::Interrupted),
        7 => Some(Verdict::Conflict),
        8 => Some(Verdict::Superseded),
        9 => Some(Verdict::OtherRound),
        10 => Some(Verdict::TooEarly),
        12 => Some(Verdict::Rejected),
        13 => Some(Verdict::Fenced),
        14 => Some(Verdict::Expired),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_number_is_read_as_the_verdict_that_wrote_it() {
        let known: Vec<u8> = (0..=u8::MAX)
            .filter(|code| verdict_from_code(*code).is_some())
            .collect();
        assert_eq!(known, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14]);
        for code in known {
            assert_eq!(verdict_from_code(code).map(verdict_code), Some(code));
        }
    }
}
