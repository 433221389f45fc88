//! Operations that were claimed and are not finished.

use super::words::{at, list};
use super::{Telling, Topic};
use crate::domain::claim::{CLAIM_ATTEMPTS_MAX, Finding, Resolution};
use crate::domain::judge::{Condition, LookedInto};

impl Telling<'_> {
    /// Each of them, oldest first.
    pub(super) fn claims(&mut self) {
        let open: Vec<String> = self
            .look
            .open
            .iter()
            .map(|open| self.of_claim(open))
            .collect();
        for text in open {
            self.say(Topic::Claim, text);
        }
    }

    fn of_claim(&self, open: &LookedInto) -> String {
        let now = self.gathered.when.wall_ms;
        let claim = &open.operation.claim;
        let attempts = claim.attempts;
        let mut text = format!("Operation {:?}", open.operation.intent.operation);
        if let Some(judged) = &open.operation.judged {
            let (event, version) = (&judged.event, judged.version);
            text.push_str(&format!(
                ", event {event} by version {version} of the machine,"
            ));
        }
        text.push_str(&match open.condition {
            Condition::Running => {
                format!(" is running under the live reservation, which claims it: attempt {attempts}")
            }
            Condition::Reruns => format!(
                " is interrupted: attempt {attempts} ended without a result. It may be claimed again; of {CLAIM_ATTEMPTS_MAX} \
                 attempts none needs a person"
            ),
            Condition::Asks => format!(
                " is interrupted: attempt {attempts} ended without a result. Whether its effect ran is not known, and a person \
                 decides"
            ),
            Condition::Returned => {
                format!(" was given back after attempt {attempts} with nothing done, and may start again")
            }
        });
        text.push_str(&format!("; first claimed at {}", at(claim.time_ms, now)));
        if let Some(said) = &claim.resolved {
            text.push_str(&format!("; {}", resolution(said, now)));
        }
        text.push('.');
        text
    }

    /// What other moves are told as long as a claim comes first.
    pub(super) fn waiting(&mut self) {
        let first = |condition: Condition| {
            let mut open = self.look.open.iter().filter(|open| open.moves);
            let found = open.find(|open| open.condition == condition);
            found.map(|open| open.operation.intent.operation.clone())
        };
        let (running, asks) = (first(Condition::Running), first(Condition::Asks));
        if let Some(id) = running {
            let text = format!("Until {id:?} is completed, no other message moves the resource.");
            self.say(Topic::Event, text);
        } else if let Some(id) = asks {
            let text = format!(
                "Until {id:?} is resolved, whatever else would move the resource is INTERRUPTED."
            );
            self.say(Topic::Event, text);
        }
    }

    /// What a person can say about those that were interrupted; of the one that is asked about only.
    pub(super) fn to_resolve(&self) -> Option<String> {
        let asked = self.gathered.asked.as_ref();
        let asks = |open: &&LookedInto| open.condition == Condition::Asks;
        let open = self.look.open.iter().filter(asks);
        let open =
            open.filter(|open| asked.is_none_or(|id| open.operation.intent.operation == *id));
        let open: Vec<&LookedInto> = open.collect();
        let first = open.first()?;
        let resource = &self.gathered.resource;
        let ids = open
            .iter()
            .map(|open| format!("{:?}", open.operation.intent.operation));
        Some(format!(
            "Find out whether the effect ran (of {}), and say so: `fencepost resolve {} {:?} {:?} --attempt {} --reason TEXT` \
             with --done, --not-done or --refused.",
            list(ids),
            resource.kind(),
            resource.id(),
            first.operation.intent.operation,
            first.operation.claim.attempts
        ))
    }
}

/// What a person found out.
pub(super) fn resolution(said: &Resolution, now_ms: u64) -> String {
    let what = match said.finding {
        Finding::Done => "that it was done",
        Finding::NotDone => "that it was not done",
        Finding::Refused => "that it must never be run",
    };
    let when = at(said.time_ms, now_ms);
    format!(
        "{:?} said {what}, at {when}: {:?}",
        said.by,
        said.reason.to_string()
    )
}
