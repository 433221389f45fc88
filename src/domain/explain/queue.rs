//! Who waits for the resource.

use super::words::{at, count};
use super::{Telling, Topic};
use crate::domain::waiter::{Waiter, WaitingCall};

impl Telling<'_> {
    /// How many wait, since when, and who comes first.
    pub(super) fn queue(&mut self) {
        let waiting = &self.gathered.waiting;
        if waiting.calls == 0 {
            return;
        }
        let now = self.gathered.when.wall_ms;
        let mut told = Vec::new();
        let calls = count(waiting.calls, "call waits", "calls wait");
        let since = waiting.first.first().map_or_else(String::new, |first| {
            format!(
                "; the one that comes first, since {}",
                at(first.time_ms, now)
            )
        });
        told.push(format!("{calls} for it{since}."));
        let each = (1_u64..).zip(&waiting.first);
        told.extend(each.map(|(number, waiter)| format!("{number}. {}", who(waiter, now))));
        let listed = u64::try_from(waiting.first.len()).unwrap_or(u64::MAX);
        let beside = waiting.calls.saturating_sub(listed);
        if beside > 0 && listed > 0 {
            told.push(format!("… and {beside} more."));
        }
        for text in told {
            self.say(Topic::Queue, text);
        }
    }
}

/// One who waits.
fn who(waiter: &Waiter, now_ms: u64) -> String {
    let call = match waiter.call {
        WaitingCall::Reserve => "A Reserve",
        WaitingCall::Transition => "A Transition",
    };
    let by = waiter.holder.as_ref().map_or_else(
        || "somebody who gave no name".to_owned(),
        |name| format!("{name:?}"),
    );
    let mut text = format!("{call} of {by}");
    if let Some(operation) = &waiter.operation {
        text.push_str(&format!(", for operation {operation:?}"));
    }
    if let Some(request) = &waiter.request {
        text.push_str(&format!(", request {request}"));
    }
    if waiter.also > 0 {
        let others = count(u64::from(waiter.also), "other resource", "other resources");
        text.push_str(&format!(", which waits for {others} as well"));
    }
    text.push_str(&format!(", since {}.", at(waiter.time_ms, now_ms)));
    text
}
