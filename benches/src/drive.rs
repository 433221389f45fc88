//! The closed loop: so many callers, each with one call under way at any time. What begins in the warm-up is not counted.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use crate::Outcome;

/// How long one call may take before the measurement is given up.
const CALL_WITHIN: Duration = Duration::from_secs(30);
/// Latencies are kept in tenths of a microsecond,
const UNIT_NANOS: u64 = 100;
/// up to this many of them (a minute),
const LONGEST: u64 = 600_000_000;
/// with so many digits.
const DIGITS: u8 = 3;

/// How long a turn takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

/// One caller. It checks each answer: a wrong one is an error, and ends the benchmark.
pub(crate) trait Caller: Send + 'static {
    fn call(&mut self) -> impl Future<Output = Outcome<()>> + Send;
}

/// What a turn came to.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) per_second: f64,
    latencies: Histogram<u64>,
    /// All calls, those of the warm-up included.
    pub(crate) calls: u64,
}

impl Turn {
    /// In microseconds.
    pub(crate) fn latency(&self, quantile: f64) -> f64 {
        let units = self.latencies.value_at_quantile(quantile);
        units as f64 * UNIT_NANOS as f64 / 1000.0
    }
}

/// One turn.
pub(crate) async fn closed_loop<C: Caller>(span: Span, callers: Vec<C>) -> Outcome<Turn> {
    let from = Instant::now() + span.warm_up;
    let until = from + span.measured;
    let mut running = JoinSet::new();
    for caller in callers {
        running.spawn(one(caller, from, until));
    }
    let mut latencies = histogram();
    let mut calls = 0;
    while let Some(ended) = running.join_next().await {
        let (of_one, its_calls) = ended??;
        latencies.add(of_one)?;
        calls += its_calls;
    }
    if latencies.is_empty() {
        return Err("no call began and ended within the time of a turn".into());
    }
    Ok(Turn {
        per_second: latencies.len() as f64 / span.measured.as_secs_f64(),
        latencies,
        calls,
    })
}

async fn one(
    mut caller: impl Caller,
    from: Instant,
    until: Instant,
) -> Outcome<(Histogram<u64>, u64)> {
    let mut latencies = histogram();
    let mut calls = 0;
    let mut begun = Instant::now();
    while begun < until {
        let answered = tokio::time::timeout(CALL_WITHIN, caller.call()).await;
        answered.map_err(|_| format!("a call took more than {CALL_WITHIN:?}"))??;
        let ended = Instant::now();
        calls += 1;
        if begun >= from && ended <= until {
            let nanos = u64::try_from((ended - begun).as_nanos())?;
            latencies.saturating_record((nanos / UNIT_NANOS).max(1));
        }
        begun = ended;
    }
    Ok((latencies, calls))
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("the bounds are in order")
}

/// Calls each caller so many times, all callers at once, and does not measure.
pub(crate) async fn run_through<C: Caller>(callers: Vec<C>, times: usize) -> Outcome<()> {
    let mut running = JoinSet::new();
    for mut caller in callers {
        running.spawn(async move {
            for _ in 0..times {
                let answered = tokio::time::timeout(CALL_WITHIN, caller.call()).await;
                answered.map_err(|_| format!("a call took more than {CALL_WITHIN:?}"))??;
            }
            Outcome::Ok(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(())
}
