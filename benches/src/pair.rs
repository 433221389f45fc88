//! Two that are compared take turns, so that what the machine does meanwhile meets both.

use crate::Outcome;
use crate::drive::{Caller, Span, Turn, closed_loop};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    pub(crate) span: Span,
}

/// The turns of both, round by round.
#[derive(Debug)]
pub(crate) struct Rounds {
    pub(crate) ours: Vec<Turn>,
    pub(crate) peers: Vec<Turn>,
}

/// Measures both in turn. The callers are made anew, and connected, before each turn.
pub(crate) async fn in_turn<A: Caller, B: Caller>(
    effort: Effort,
    mut ours: impl AsyncFnMut() -> Outcome<Vec<A>>,
    mut peers: impl AsyncFnMut() -> Outcome<Vec<B>>,
) -> Outcome<Rounds> {
    let mut rounds = Rounds {
        ours: Vec::new(),
        peers: Vec::new(),
    };
    for _ in 0..effort.rounds {
        let turn = closed_loop(effort.span, ours().await?).await;
        rounds
            .ours
            .push(turn.map_err(|error| format!("ours: {error}"))?);
        let turn = closed_loop(effort.span, peers().await?).await;
        rounds
            .peers
            .push(turn.map_err(|error| format!("peer: {error}"))?);
    }
    Ok(rounds)
}

/// One figure of each round, sorted.
#[derive(Clone, Debug)]
pub(crate) struct Spread(Vec<f64>);

impl Spread {
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        Self(figures)
    }

    pub(crate) fn median(&self) -> f64 {
        let middle = self.0.len() / 2;
        if self.0.len() % 2 == 1 {
            self.0[middle]
        } else {
            (self.0[middle - 1] + self.0[middle]) / 2.0
        }
    }

    /// The smallest figure that so large a part of all is not above.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let at = (self.0.len() as f64 * part).ceil() as usize;
        let at = at.saturating_sub(1);
        self.0.get(at).copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn least(&self) -> f64 {
        self.0.first().copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn most(&self) -> f64 {
        self.0.last().copied().unwrap_or(f64::NAN)
    }
}
