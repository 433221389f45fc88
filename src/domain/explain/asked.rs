//! Why the operation that was asked about was answered as it was, what it would be answered now, and what to do.

use super::incidents::finding;
use super::words::{self, at, list};
use super::{Telling, Topic};
use crate::domain::decision::{Decision, Layer, Verdict};
use crate::domain::ids::OperationId;
use crate::domain::judge::OperationState;
use crate::domain::record::Operation;

impl Telling<'_> {
    /// Why, and what now.
    pub(super) fn answer(&mut self) {
        let Some((id, state, decision)) = self.asked.clone() else {
            return;
        };
        let done = self
            .gathered
            .standing
            .operation(&id, self.gathered.when.now);
        let texts = match (done, decision) {
            (Some(done), Some(decision)) => self.of_done(&done, state, &decision),
            (None, Some(decision)) => self.of_open(&id, &decision),
            (Some(_) | None, None) => self.of_unknown(&id),
        };
        for text in texts {
            self.say(Topic::Answer, text);
        }
    }

    fn of_done(&self, done: &Operation, state: OperationState, again: &Decision) -> Vec<String> {
        let now = self.gathered.when.wall_ms;
        let mut texts = Vec::new();
        if self.gathered.told().0.iter().all(|told| told.id != done.id) {
            texts.push(self.of_operation(done));
        }
        let applied = done.verdict == Verdict::Applied;
        let why = if applied {
            "no layer objected".to_owned()
        } else {
            again.explanation.clone()
        };
        let layer = if applied { Layer::Result } else { again.layer };
        let layer = words::layer(layer);
        let mut first = format!(
            "{:?} was decided at {}: {}, by layer {layer}, rule {}, for {why}",
            done.id,
            at(done.time_ms, now),
            words::verdict(done.verdict),
            done.rule.as_str()
        );
        if !done.expected.is_empty() {
            first.push_str(&format!(
                "; it could have started from {}",
                list(&done.expected)
            ));
        }
        first.push('.');
        texts.push(first);
        texts.extend(self.last_request(&done.id, Some(done.time_ms)));
        let with = match state {
            OperationState::Done => ", with the first result",
            OperationState::DoneEmpty => ", with the first result, which is empty",
            OperationState::Refused
            | OperationState::NeverSeen
            | OperationState::Expired
            | OperationState::Running
            | OperationState::Interrupted => "",
        };
        texts.push(format!(
            "The same content again is answered {} ({}){with}; another content under this operation id is a CONFLICT, \
             and never applied.",
            words::verdict(again.verdict),
            words::advice(again.advice())
        ));
        texts
    }

    fn of_open(&self, id: &OperationId, again: &Decision) -> Vec<String> {
        let mut texts = vec![format!(
            "{id:?} is not finished: a message about it is answered {} ({}), by layer {}, rule {}, for {}.",
            words::verdict(again.verdict),
            words::advice(again.advice()),
            words::layer(again.layer),
            again.rule.as_str(),
            again.explanation
        )];
        texts.extend(self.last_request(id, None));
        texts
    }

    /// The last request of which the time is known, if it came after the one that decided.
    fn last_request(&self, id: &OperationId, decided_ms: Option<u64>) -> Option<String> {
        let last = self
            .incidents_of(id)
            .max_by_key(|incident| incident.last_ms)?;
        if decided_ms.is_some_and(|decided| last.last_ms <= decided) {
            return None;
        }
        let layer = words::layer(words::layer_of(last.verdict, last.rule));
        Some(format!(
            "The last request of which the time is known came at {}; layer {layer} found: {}.",
            at(last.last_ms, self.gathered.when.wall_ms),
            finding(last)
        ))
    }

    fn of_unknown(&self, id: &OperationId) -> Vec<String> {
        if self.open(id).is_some() {
            return vec![format!(
                "{id:?} was given back with nothing done: if it comes now, it is judged anew."
            )];
        }
        let mut texts = vec![format!(
            "Nothing is stored of operation {id:?}: it never came, or was only told RETRY, REFUSE or ABANDON without being \
             stored (BUSY, TOO_EARLY, FENCED, EXPIRED), or its retention is over."
        )];
        texts.extend(self.last_request(id, None));
        texts.push(
            "If it came now it would be judged anew, by its round, identity and state; one that says by its operation_time \
             that it is older than the retention is EXPIRED and never runs."
                .to_owned(),
        );
        texts
    }

    /// What a person can do.
    pub(super) fn next(&mut self) {
        let open = self.open_incidents();
        let resolve = self.to_resolve();
        let nothing = resolve.is_none();
        if let Some(text) = resolve {
            self.say(Topic::Next, text);
        }
        let text = if let Some(first) = open.first() {
            let all = list(open.iter().map(|id| &id.0));
            format!(
                "Judge what is open ({all}): `fencepost incidents show {}` tells all, and `fencepost incidents close {} \
                 --reason TEXT` says what was found and done.",
                first.0, first.0
            )
        } else if nothing {
            "Nothing waits for a person.".to_owned()
        } else {
            return;
        };
        self.say(Topic::Next, text);
    }
}
