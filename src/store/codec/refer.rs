//! States and rounds that operations name are written once, beside them, and referred to by their number. It counts from 1;
//! 0 is none.

use crate::domain::ids::{Nonce, StateName};
use crate::domain::invalid::Invalid;

/// What can be referred to, in the order of the numbers.
#[derive(Debug, Default)]
pub(super) struct Names<'a> {
    pub(super) states: Vec<&'a StateName>,
    pub(super) rounds: Vec<Nonce>,
}

impl<'a> Names<'a> {
    /// The number of a state; one that has none is added.
    pub(super) fn state(&mut self, state: &'a StateName) -> u32 {
        number(&mut self.states, state)
    }

    /// The number of a round; one that has none is added.
    pub(super) fn round(&mut self, round: Nonce) -> u32 {
        number(&mut self.rounds, round)
    }

    /// The texts of the states after the first so many.
    pub(super) fn states_beyond(&self, known: usize) -> Vec<String> {
        let beyond = self.states.iter().skip(known);
        beyond.map(|state| state.as_str().to_owned()).collect()
    }

    /// The rounds after the first so many.
    pub(super) fn rounds_beyond(&self, known: usize) -> Vec<bytes::Bytes> {
        let beyond = self.rounds.iter().skip(known);
        beyond.copied().map(super::nonce_bytes).collect()
    }
}

fn number<T: PartialEq>(known: &mut Vec<T>, one: T) -> u32 {
    let at = known.iter().position(|other| *other == one);
    let at = at.unwrap_or_else(|| {
        known.push(one);
        known.len() - 1
    });
    u32::try_from(at + 1).expect("a record names few states and rounds")
}

/// What has this number; `None` for 0.
pub(super) fn numbered<T: Clone>(
    name: &str,
    known: &[T],
    number: u32,
) -> Result<Option<T>, Invalid> {
    let Some(at) = number.checked_sub(1) else {
        return Ok(None);
    };
    let found = usize::try_from(at).ok().and_then(|at| known.get(at));
    found.cloned().map(Some).ok_or_else(|| {
        Invalid::new(format!(
            "{name} is {number}, and there are only {}",
            known.len()
        ))
    })
}
