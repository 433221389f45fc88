//! What is kept for how long, and what the senders do.

use humantime::format_duration;

use super::super::definition::{Definition, Origin, Words};
use super::super::finding::{Findings, Rule};

pub(super) fn lint(definition: &Definition, findings: &mut Findings) {
    let retention = definition.retention.value;
    if let Some(forget) = definition
        .forget
        .as_ref()
        .filter(|forget| forget.value <= retention)
    {
        findings.error(
            Rule::Forget,
            forget.place,
            format!(
                "resources are forgotten after {}, not later than their operations (retention {})",
                format_duration(forget.value),
                format_duration(retention)
            ),
            format!("make it longer than {}", format_duration(retention)),
        );
    }
    for event in &definition.events {
        let Some(upstream) = &event.upstream else {
            continue;
        };
        match event.origin {
            Origin::Callback | Origin::Queue => {}
            Origin::Timer | Origin::User => findings.warning(
                Rule::Upstream,
                upstream.place,
                format!(
                    "event {} has an `upstream`, but its origin is {}, which sends nothing again",
                    event.name.value,
                    event.origin.word()
                ),
                "remove `upstream`, or make the origin callback or queue",
            ),
        }
        let Some(window) = &upstream.retry_window else {
            continue;
        };
        if window.value > retention {
            findings.error(
                Rule::RetryWindow,
                window.place,
                format!(
                    "the sender of {} repeats for {}, and operations are kept for {} only: a late repeat would \
                     run again",
                    event.name.value,
                    format_duration(window.value),
                    format_duration(retention)
                ),
                format!(
                    "make `retention` {} or longer",
                    format_duration(window.value)
                ),
            );
        }
    }
}
