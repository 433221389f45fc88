//! Answers for people: one fact a line, the advice first.

use std::fmt::Write as _;
use std::time::Duration;

use super::trouble::plain;
use crate::engine::Boottime;
use crate::proto::v1::{
    Advice, Decision, Layer, Queue, Reservation, Resource, Result as Stored, Snapshot, Verdict,
    Waiter,
};

/// The most of a result that is shown, in characters; JSON output shows all of it.
const SHOWN_CHARACTERS_MAX: usize = 400;

/// Lines of a name and what is to be said about it.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<(&'static str, String)>,
}

impl Table {
    /// Adds a line; an empty one is left out.
    pub(super) fn row(&mut self, name: &'static str, text: impl Into<String>) -> &mut Self {
        let text = text.into();
        if !text.is_empty() {
            self.rows.push((name, plain(&text)));
        }
        self
    }

    /// All lines, the texts under each other.
    pub(super) fn render(&self) -> String {
        let width = self
            .rows
            .iter()
            .map(|(name, _)| name.len())
            .max()
            .unwrap_or(0);
        let mut text = String::new();
        for (name, value) in &self.rows {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:width$}  {value}");
        }
        text
    }

    /// A judgement.
    pub(super) fn decision(&mut self, decision: &Decision) -> &mut Self {
        let advice = decision.advice();
        let (name, verdict) = (advice_name(advice), verdict_name(decision.verdict()));
        let (advice, verdict) = if decision.validate_only {
            (
                format!("would be {name}; nothing was written, so do not act on it"),
                format!("would be {verdict}"),
            )
        } else {
            (format!("{name}: {}", to_do(advice)), verdict.to_owned())
        };
        self.row("advice", advice)
            .row("verdict", verdict)
            .row(
                "rule",
                format!("{} (layer {})", decision.rule, layer_name(decision.layer())),
            )
            .row("explanation", &decision.explanation);
        if let Some(result) = &decision.result {
            self.row("result", stored(result))
                .row("its sha256", hex(&result.sha256));
        }
        if let Some(after) = &decision.retry_after {
            self.row("retry after", span(after));
        }
        self.row("incident", &decision.incident_id)
            .row("differs at", pointers(&decision.differing_fields));
        if !decision.expected_states.is_empty() {
            self.row("possible from", decision.expected_states.join(", "));
        }
        if let Some(first) = &decision.first_time {
            self.row("first decided", first.to_string());
        }
        if decision.deliveries > 0 {
            self.row("deliveries", decision.deliveries.to_string());
        }
        if let Some(now) = &decision.now {
            self.snapshot(now);
        }
        self
    }

    /// A reservation. `asked`: when the call was sent or the stream opened, from which `safe_for` counts.
    pub(super) fn reservation(&mut self, reservation: &Reservation, asked: Boottime) -> &mut Self {
        self.row("reservation", &reservation.reservation_id)
            .row("token", reservation.token.to_string());
        if reservation.attempt > 0 {
            self.row("attempt", reservation.attempt.to_string());
        }
        if let Some(ttl) = &reservation.ttl {
            self.row("ttl", span(ttl));
        }
        if let Some(safe) = &reservation.safe_for {
            self.row("safe for", safe_for(safe, asked));
        }
        self
    }

    /// A resource.
    pub(super) fn snapshot(&mut self, snapshot: &Snapshot) -> &mut Self {
        self.row("resource", resource(snapshot.resource.as_ref()));
        let state = if snapshot.state.is_empty() {
            "none"
        } else {
            &snapshot.state
        };
        let also = snapshot.live_also.iter();
        let also: Vec<String> = also.map(|one| format!("{}/{}", one.kind, one.id)).collect();
        self.row("state", state)
            .row("held", held(snapshot))
            .row("together with", also.join(", "));
        let identity: Vec<String> = snapshot
            .identity
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        self.row("identity", identity.join(", "));
        if snapshot.machine_version > 0 {
            self.row("machine", format!("version {}", snapshot.machine_version));
        }
        self.row("allowed events", snapshot.allowed_events.join(", "));
        let revision = match snapshot.revision {
            0 => "never written".to_owned(),
            revision => revision.to_string(),
        };
        self.row("revision", revision)
    }

    /// Who waits; nothing if nobody does.
    pub(super) fn queue(&mut self, queue: &Queue) -> &mut Self {
        if queue.calls > 0 {
            self.row("calls that wait", queue.calls.to_string());
        }
        for waiter in &queue.first {
            self.row("waits", waits(waiter));
        }
        self
    }
}

/// The empty pointer stands for the content as a whole.
pub(super) fn pointers(fields: &[String]) -> String {
    let shown = fields.iter().map(|field| match field.as_str() {
        "" => "the content as a whole",
        field => field,
    });
    shown.collect::<Vec<_>>().join(", ")
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The name of an advice as the docs write it.
pub(super) fn advice_name(advice: Advice) -> &'static str {
    bare(advice.as_str_name(), "ADVICE_")
}

/// The name of a verdict as the docs write it.
pub(super) fn verdict_name(verdict: Verdict) -> &'static str {
    bare(verdict.as_str_name(), "VERDICT_")
}

fn layer_name(layer: Layer) -> &'static str {
    bare(layer.as_str_name(), "LAYER_")
}

/// Enum names carry their type's name on the wire.
pub(super) fn bare(name: &'static str, prefix: &str) -> &'static str {
    name.strip_prefix(prefix).unwrap_or(name)
}

fn to_do(advice: Advice) -> &'static str {
    match advice {
        Advice::Unspecified => "this version does not know the advice; take it as an error",
        Advice::Proceed => "it is yours, run the effect",
        Advice::Acknowledge => "settled, tell the sender so",
        Advice::Retry => "not now",
        Advice::Refuse => "no, and asking again will not help",
        Advice::Abandon => "stop, the round is not yours any more",
    }
}

pub(super) fn resource(resource: Option<&Resource>) -> String {
    resource.map_or_else(String::new, |resource| {
        format!("{} {}", resource.kind, resource.id)
    })
}

fn held(snapshot: &Snapshot) -> String {
    if snapshot.live_token == 0 {
        return "free".into();
    }
    let mut text = format!("token {}", snapshot.live_token);
    if !snapshot.live_holder.is_empty() {
        text.push_str(&format!(", by {}", snapshot.live_holder));
    }
    if let Some(left) = &snapshot.live_for {
        text.push_str(&format!(
            ", for at most {} unless renewed (etcd lets go a little later than the ttl)",
            span(left)
        ));
    }
    text
}

fn waits(waiter: &Waiter) -> String {
    let mut text = bare(waiter.call().as_str_name(), "WAITING_CALL_").to_lowercase();
    if !waiter.holder.is_empty() {
        text.push_str(&format!(", by {}", waiter.holder));
    }
    if !waiter.operation_id.is_empty() {
        text.push_str(&format!(", for {}", waiter.operation_id));
    }
    if waiter.also > 0 {
        text.push_str(&format!(", and for {} more resources", waiter.also));
    }
    if let Some(since) = &waiter.since {
        text.push_str(&format!(", since {since}"));
    }
    text
}

pub(super) fn stored(result: &Stored) -> String {
    let mut parts = Vec::new();
    if result.code != 0 {
        parts.push(result.code.to_string());
    }
    if !result.content_type.is_empty() {
        parts.push(result.content_type.clone());
    }
    for header in &result.headers {
        parts.push(format!("{}: {}", header.name, header.value));
    }
    parts.push(
        match (result.body.len(), std::str::from_utf8(&result.body)) {
            (0, _) => "empty body".into(),
            (length, Err(_)) => format!("{length} bytes that are not text; -o json shows them"),
            (length, Ok(text)) => match text.char_indices().nth(SHOWN_CHARACTERS_MAX) {
                None => text.to_owned(),
                Some((cut, _)) => format!("{}… ({length} bytes; -o json shows all)", &text[..cut]),
            },
        },
    );
    parts.join(" | ")
}

fn span(duration: &prost_types::Duration) -> String {
    Duration::try_from(*duration).map_or_else(
        |_| duration.to_string(),
        |span| humantime::format_duration(whole_milliseconds(span)).to_string(),
    )
}

/// How long it is still safe. Who reads this does not know when it was asked, so it is told from now on.
fn safe_for(safe: &prost_types::Duration, asked: Boottime) -> String {
    let left = Duration::try_from(*safe).map(|safe| whole_milliseconds(asked.plus(safe).left()));
    match left {
        Ok(Duration::ZERO) => "its time is over: take it as lost".to_owned(),
        Ok(left) => format!(
            "{}, counted from when this is printed",
            humantime::format_duration(left)
        ),
        Err(_) => safe.to_string(),
    }
}

/// Rounds down, so that what is shown is never more than what was promised.
fn whole_milliseconds(span: Duration) -> Duration {
    Duration::new(span.as_secs(), span.subsec_millis() * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::WaitingCall;

    #[test]
    fn the_advice_comes_first_and_nothing_commands_the_terminal() {
        let decision = Decision {
            advice: Advice::Refuse.into(),
            verdict: Verdict::Conflict.into(),
            layer: Layer::Digest.into(),
            rule: "OTHER_CONTENT".into(),
            explanation: "the content\u{7} differs".into(),
            ..Decision::default()
        };
        let text = Table::default().decision(&decision).render();
        assert!(
            text.starts_with("advice       REFUSE: no, and asking again will not help\n"),
            "{text}"
        );
        assert!(text.contains("verdict      CONFLICT\n"));
        assert!(text.contains("rule         OTHER_CONTENT (layer DIGEST)\n"));
        assert!(text.contains("content\\u{7} differs"));
    }

    #[test]
    fn what_was_only_asked_reads_as_what_would_be() {
        let decision = Decision {
            advice: Advice::Acknowledge.into(),
            verdict: Verdict::Applied.into(),
            validate_only: true,
            ..Decision::default()
        };
        let text = Table::default().decision(&decision).render();
        assert!(
            text.starts_with("advice   would be ACKNOWLEDGE; nothing was written,"),
            "{text}"
        );
        assert!(text.contains("verdict  would be APPLIED\n"), "{text}");
        assert!(!text.contains("settled"), "{text}");
    }

    #[test]
    fn who_waits_is_shown_a_call_a_line_and_nobody_is_not_shown() {
        assert_eq!(Table::default().queue(&Queue::default()).render(), "");
        let mut first = Waiter {
            holder: "till\u{7}".into(),
            operation_id: "pay".into(),
            also: 2,
            since: Some(prost_types::Timestamp::default()),
            ..Waiter::default()
        };
        first.set_call(WaitingCall::Reserve);
        let queue = Queue {
            calls: 12,
            first: vec![first],
        };
        assert_eq!(
            Table::default().queue(&queue).render(),
            "calls that wait  12\n\
             waits            reserve, by till\\u{7}, for pay, and for 2 more resources, since 1970-01-01T00:00:00Z\n"
        );
    }

    #[test]
    fn what_is_safe_is_told_from_now_on_whenever_it_was_asked_for() {
        let ttl = Duration::from_secs(30);
        // A stream that was opened a while ago, or a call that waited.
        let waited = Duration::from_secs(2);
        let asked = Boottime::now().minus(waited);
        let safe = |span: Duration| safe_for(&span.try_into().unwrap(), asked);
        let told = safe(ttl + waited);
        assert!(told.starts_with("29s "), "{told}");
        assert!(told.ends_with("counted from when this is printed"));
        assert_eq!(safe(waited), "its time is over: take it as lost");
    }

    #[test]
    fn an_empty_result_is_shown_as_one() {
        assert_eq!(stored(&Stored::default()), "empty body");
        let long = Stored {
            body: "é".repeat(500).into(),
            code: 200,
            ..Stored::default()
        };
        assert!(stored(&long).starts_with("200 | é"));
        assert!(stored(&long).ends_with("(1000 bytes; -o json shows all)"));
    }
}
