//! Who holds the resource or held it, and the tokens.

use super::words::{count, list, span};
use super::{Telling, Topic};
use crate::domain::record::{PAST_ROUNDS_MAX, RoundEnd};
use crate::domain::together::Company;

impl Telling<'_> {
    /// The live round or the last one, those before it, and what that means for tokens.
    pub(super) fn rounds(&mut self) {
        let record = &self.look.record;
        let Some(round) = &record.round else {
            self.say(
                Topic::Round,
                "Nobody holds it; it was never reserved, or so long ago that this is forgotten.",
            );
            return;
        };
        let by = round.holder.as_ref().map_or_else(
            || "somebody who gave no name".to_owned(),
            |name| format!("{name:?}"),
        );
        let ttl = span(round.ttl.as_duration().as_secs());
        // Leases last a little longer than what was promised.
        let longest = span(u64::from(round.ttl.lease_seconds()));
        let last = match (self.look.live, round.over) {
            (Some(_), _) => {
                format!(
                    "It is held by {by} with a TTL of {ttl}: for at most {longest} from now, unless renewed."
                )
            }
            (None, Some(RoundEnd::Released(_))) => {
                format!("Nobody holds it; the last round, of {by}, was released.")
            }
            (None, Some(RoundEnd::Lost) | None) if round.base != self.gathered.timeline.base => {
                format!(
                    "Nobody holds it; the last round, of {by}, was granted in an older timeline: the start of a new one has ended it, \
                     if its time was not over before."
                )
            }
            (None, Some(RoundEnd::Lost) | None) => format!(
                "Nobody holds it; the last round, of {by}, ran out: it was not renewed within its TTL of {ttl}."
            ),
        };
        let ends = record.past_rounds.iter().map(|past| past.end);
        let (mut released, mut lost): (u64, u64) = (0, 0);
        for end in ends {
            match end {
                RoundEnd::Released(_) => released += 1,
                RoundEnd::Lost => lost += 1,
            }
        }
        let before = (released + lost > 0).then(|| {
            format!(
                "Of the rounds before that one, {} released and {} out; no more than {PAST_ROUNDS_MAX} are remembered.",
                count(released, "was", "were"),
                count(lost, "ran", "ran")
            )
        });
        let token = self.look.last.map(|token| {
            let smaller = "every smaller token is overtaken and refused";
            if token.get() < self.gathered.timeline.min_token {
                format!("Token {token} was granted last, before the store was restored: it is refused.")
            } else if self.look.live.is_some() {
                format!("Token {token} is good; {smaller}.")
            } else {
                format!("Token {token} was granted last and its round is over: it passes only with even_if_ended; {smaller}.")
            }
        });
        let others = together(&round.company);
        self.say(Topic::Round, last);
        if let Some(text) = others {
            self.say(Topic::Round, text);
        }
        if let Some(text) = before {
            self.say(Topic::Round, text);
        }
        if let Some(text) = token {
            self.say(Topic::Token, text);
        }
    }
}

/// The other resources of the round.
fn together(company: &Company) -> Option<String> {
    match company {
        Company::Alone => None,
        Company::Leads(others) => Some(format!(
            "That round is one together with {}: all of them began under one token, and end together.",
            list(others)
        )),
        Company::Follows(lead) => Some(format!(
            "That round is one together with {lead} and whatever else is told of there: all of them began under one token, and end together."
        )),
    }
}
