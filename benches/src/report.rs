//! The one table, and the same as JSON.

use std::io::Write as _;
use std::path::Path;

use serde::Serialize;

use crate::Outcome;
use crate::pair::{Rounds, Spread};

/// What a figure has to reach.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "direction")]
pub(crate) enum Bar {
    AtLeast { bar: f64, aim: f64 },
    AtMost { bar: f64, aim: f64 },
}

impl Bar {
    fn is_met(self, figure: f64) -> bool {
        match self {
            Self::AtLeast { bar, .. } => figure >= bar,
            Self::AtMost { bar, .. } => figure <= bar,
        }
    }

    fn texts(self) -> (String, String) {
        match self {
            Self::AtLeast { bar, aim } => (format!("≥ {}", short(bar)), short(aim)),
            Self::AtMost { bar, aim } => (format!("≤ {}", short(bar)), short(aim)),
        }
    }
}

/// One line of the table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    row: &'static str,
    what: String,
    /// The unit of `ours` and `peer`.
    unit: &'static str,
    ours: f64,
    peer: Option<f64>,
    /// The figure that the bar is held against: ours ÷ peer, or ours where there is no peer.
    figure: f64,
    least: f64,
    most: f64,
    bar: Option<Bar>,
    ok: Option<bool>,
    latency_us: Option<Latencies>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Latencies {
    ours_p50: f64,
    ours_p99: f64,
    peer_p50: f64,
    peer_p99: f64,
}

impl Line {
    /// Calls per second, ours ÷ the peer's.
    pub(crate) fn throughput(
        row: &'static str,
        what: impl Into<String>,
        rounds: &Rounds,
        bar: Option<Bar>,
    ) -> Self {
        let mut line = Self::compared(row, what, "1/s", rounds, bar, |turn| turn.per_second);
        let median = |turns: &[crate::drive::Turn], quantile| {
            Spread::of(turns.iter().map(|turn| turn.latency(quantile))).median()
        };
        line.latency_us = Some(Latencies {
            ours_p50: median(&rounds.ours, 0.5),
            ours_p99: median(&rounds.ours, 0.99),
            peer_p50: median(&rounds.peers, 0.5),
            peer_p99: median(&rounds.peers, 0.99),
        });
        line
    }

    /// Where a call of one is not a call of the other, their latencies say nothing beside each other.
    pub(crate) fn without_latency(mut self) -> Self {
        self.latency_us = None;
        self
    }

    /// The median latency, ours ÷ the peer's.
    pub(crate) fn median_latency(
        row: &'static str,
        what: impl Into<String>,
        rounds: &Rounds,
        bar: Option<Bar>,
    ) -> Self {
        Self::compared(row, what, "µs p50", rounds, bar, |turn| turn.latency(0.5))
    }

    fn compared(
        row: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        rounds: &Rounds,
        bar: Option<Bar>,
        figure: impl Fn(&crate::drive::Turn) -> f64,
    ) -> Self {
        let ours: Vec<f64> = rounds.ours.iter().map(&figure).collect();
        let peers: Vec<f64> = rounds.peers.iter().map(&figure).collect();
        Self::ratio(row, what, unit, &ours, &peers, bar)
    }

    /// The figures of two, round by round.
    pub(crate) fn ratio(
        row: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        ours: &[f64],
        peers: &[f64],
        bar: Option<Bar>,
    ) -> Self {
        let ratios = Spread::of(ours.iter().zip(peers).map(|(ours, peer)| ours / peer));
        let median = |figures: &[f64]| Spread::of(figures.iter().copied()).median();
        Self {
            row,
            what: what.into(),
            unit,
            ours: median(ours),
            peer: Some(median(peers)),
            figure: ratios.median(),
            least: ratios.least(),
            most: ratios.most(),
            ok: bar.map(|bar| bar.is_met(ratios.median())),
            bar,
            latency_us: None,
        }
    }

    /// A figure that stands alone.
    pub(crate) fn plain(
        row: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        figures: &Spread,
        bar: Option<Bar>,
    ) -> Self {
        let figure = figures.median();
        Self {
            row,
            what: what.into(),
            unit,
            ours: figure,
            peer: None,
            figure,
            least: figures.least(),
            most: figures.most(),
            ok: bar.map(|bar| bar.is_met(figure)),
            bar,
            latency_us: None,
        }
    }

    /// A figure that was measured once.
    pub(crate) fn once(
        row: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        figure: f64,
        bar: Option<Bar>,
    ) -> Self {
        Self::plain(row, what, unit, &Spread::of([figure]), bar)
    }

    /// For those who wait for the table.
    pub(crate) fn brief(&self) -> String {
        let [what, ours, peer, ratio, spread, ..] = self.cells();
        let peer = if peer.is_empty() {
            peer
        } else {
            format!(" beside {peer}: {ratio} ({spread})")
        };
        format!("{what}: {ours}{peer}")
    }

    fn cells(&self) -> [String; 8] {
        let (bar, aim) = self.bar.map(Bar::texts).unwrap_or_default();
        let verdict = match self.ok {
            Some(true) => "ok",
            Some(false) => "MISSED",
            None => "",
        };
        let (ratio, spread) = match self.peer {
            Some(_) => (
                format!("{}×", short(self.figure)),
                format!("{}–{}", short(self.least), short(self.most)),
            ),
            None if self.least < self.most => (
                String::new(),
                format!("{}–{}", short(self.least), short(self.most)),
            ),
            None => (String::new(), String::new()),
        };
        [
            self.what.clone(),
            format!("{} {}", short(self.ours), self.unit),
            self.peer.map(short).unwrap_or_default(),
            ratio,
            spread,
            bar,
            aim,
            verdict.to_owned(),
        ]
    }

    fn latency_text(&self) -> Option<String> {
        let latency = self.latency_us?;
        let pair = |p50, p99| format!("{} / {}", short(p50), short(p99));
        let ours = pair(latency.ours_p50, latency.ours_p99);
        let peer = pair(latency.peer_p50, latency.peer_p99);
        Some(format!("| {} | {ours} | {peer} |", self.what))
    }
}

/// Where and how it was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Setting {
    pub(crate) quick: bool,
    pub(crate) rounds: usize,
    pub(crate) connections: usize,
    pub(crate) cpus: usize,
    pub(crate) processor: String,
    pub(crate) kernel: String,
    pub(crate) file_system: String,
    pub(crate) etcd: String,
    pub(crate) redis: String,
    pub(crate) postgres: String,
}

impl Setting {
    fn text(&self) -> String {
        format!(
            "{} CPUs ({}), Linux {}, data on {}; {}; {}; {}; {} rounds{}, {} connection(s) to the sidecar and to etcd",
            self.cpus,
            self.processor,
            self.kernel,
            self.file_system,
            self.etcd,
            self.redis,
            self.postgres,
            self.rounds,
            if self.quick { " (quick)" } else { "" },
            self.connections
        )
    }
}

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) setting: Setting,
    pub(crate) lines: Vec<Line>,
    pub(crate) seconds: f64,
}

impl Report {
    pub(crate) fn print(&self) -> Outcome<()> {
        let head = ["what", "ours", "peer", "ratio", "spread", "bar", "aim", ""].map(str::to_owned);
        let mut table = vec![head];
        table.extend(self.lines.iter().map(Line::cells));
        let width = |column: usize| {
            let widths = table.iter().map(|cells| cells[column].chars().count());
            widths.max().unwrap_or(0)
        };
        let widths: [usize; 8] = std::array::from_fn(width);
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}\n", self.setting.text())?;
        for (at, cells) in table.iter().enumerate() {
            write!(out, "|")?;
            for (cell, width) in cells.iter().zip(widths) {
                write!(out, " {cell:width$} |")?;
            }
            writeln!(out)?;
            if at == 0 {
                write!(out, "|")?;
                for width in widths {
                    write!(out, " {} |", "-".repeat(width.max(3)))?;
                }
                writeln!(out)?;
            }
        }
        let latencies: Vec<String> = self.lines.iter().filter_map(Line::latency_text).collect();
        if !latencies.is_empty() {
            writeln!(
                out,
                "\n| latency in µs, p50 / p99 | ours | peer |\n| --- | --- | --- |"
            )?;
            writeln!(out, "{}", latencies.join("\n"))?;
        }
        let missed = self.lines.iter().filter(|line| line.ok == Some(false));
        let missed = missed.count();
        let judged = self.lines.iter().filter(|line| line.ok.is_some()).count();
        writeln!(
            out,
            "\n{} of {judged} bars reached, {missed} missed, in {:.0} s",
            judged - missed,
            self.seconds
        )?;
        Ok(())
    }

    pub(crate) fn write_json(&self, path: &Path) -> Outcome<()> {
        let text = serde_json::to_string_pretty(self)?;
        Ok(std::fs::write(path, text + "\n")?)
    }
}

/// With as many digits as are worth reading.
fn short(figure: f64) -> String {
    let size = figure.abs();
    if size >= 1000.0 {
        let whole = format!("{size:.0}");
        let mut grouped = String::new();
        for (at, digit) in whole.chars().enumerate() {
            if at > 0 && (whole.len() - at) % 3 == 0 {
                grouped.push(',');
            }
            grouped.push(digit);
        }
        grouped
    } else if size >= 100.0 || figure.fract() == 0.0 {
        format!("{figure:.0}")
    } else if size >= 10.0 {
        format!("{figure:.1}")
    } else {
        format!("{figure:.2}")
    }
}
