//! Finished operations: what was decided, when, and for how long that is repeated.

use super::words::{self, at, count, span};
use super::{Telling, Topic};
use crate::domain::decision::Verdict;
use crate::domain::record::{Operation, Outcome};

impl Telling<'_> {
    /// The newest operations, oldest of them first.
    pub(super) fn operations(&mut self) {
        let (told, beside) = self.gathered.told();
        if beside > 0 {
            let apart = self.gathered.standing.spilled();
            let unseen = apart.saturating_sub(self.gathered.apart_looked_at);
            let told = count(
                u64::try_from(told.len()).unwrap_or(u64::MAX),
                "operation is",
                "operations are",
            );
            let text = match unseen {
                0 => format!(
                    "The last {told} told of, … and {beside} more are stored; name one to hear of it."
                ),
                _ => format!(
                    "{told} told of, the newest of those looked at, … and {beside} more are stored, of which {unseen} in keys \
                     of their own were not looked at; name one to hear of it."
                ),
            };
            self.say(Topic::Operation, text);
        }
        for operation in &told {
            let text = self.of_operation(operation);
            self.say(Topic::Operation, text);
        }
        if told.is_empty() && self.look.snapshot.revision.is_some() {
            self.say(Topic::Operation, "No finished operation of it is stored.");
        }
    }

    /// One operation.
    pub(super) fn of_operation(&self, operation: &Operation) -> String {
        let when = &self.gathered.when;
        let mut text = format!("Operation {:?}", operation.id);
        if let Some(event) = &operation.event {
            text.push_str(&format!(", event {event}"));
        }
        if let Some(version) = operation.machine {
            text.push_str(&format!(" by version {version} of the machine"));
        }
        if let Some(outcome) = &operation.outcome {
            let Outcome { event, version } = &**outcome;
            text.push_str(&format!(
                ", which turned out as event {event} of version {version}"
            ));
        }
        text.push_str(&format!(
            ": {} ({}) at {}",
            words::verdict(operation.verdict),
            operation.rule.as_str(),
            at(operation.time_ms, when.wall_ms)
        ));
        if let Some(state) = &operation.state {
            text.push_str(&format!(", in state {state}"));
        }
        let round = self.look.record.round.as_ref();
        if operation.round.is_some() {
            let last = round.map(|round| round.nonce) == operation.round;
            text.push_str(if last {
                ", under the last round"
            } else {
                ", under an earlier round"
            });
        }
        if operation.verdict == Verdict::Applied {
            let result = if operation.result.is_empty() {
                "an empty result"
            } else {
                "a result"
            };
            text.push_str(&format!(", with {result}"));
        }
        text.push_str(&match operation.deliveries.get() {
            1 => "; delivered at least once".to_owned(),
            times => format!("; delivered at least {times} times"),
        });
        if let Some(said) = &operation.resolved {
            text.push_str(&format!(
                "; {}",
                super::claims::resolution(said, when.wall_ms)
            ));
        }
        if operation.raised.bits() != 0 {
            text.push_str("; it raised an incident");
        }
        text.push_str(&match operation.expiry {
            None => "; kept for good.".to_owned(),
            Some(_) if operation.expired(when.now) => {
                "; its retention is over, and it is repeated only until it is removed.".to_owned()
            }
            Some(end) => {
                let left = end.seconds().saturating_sub(when.now.seconds());
                format!("; its answer is repeated for another {}.", span(left))
            }
        });
        text
    }
}
