//! What is said, and which code is answered, when the command was not run or came to an unusual end.

use prost_types::Timestamp;

use super::super::exit::Exit;
use super::super::trouble::{Trouble, plain};
use super::program::Unrunnable;
use crate::proto::v1::{Advice, Decision, Resource, Verdict};

/// The rule by which a sidecar tells that it is another operation of the resource whose end is not known.
const OTHER_INTERRUPTED: &str = "OTHER_INTERRUPTED";

/// The codes that the caller has chosen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Codes {
    /// Somebody else holds it, or runs the operation.
    pub(super) busy: Option<u8>,
    /// The operation was run before.
    pub(super) done: Option<u8>,
}

/// How `exec` ends, and what it says of that.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) code: u8,
    pub(super) said: Option<String>,
}

impl Ending {
    /// As the command ended, with nothing to say.
    pub(super) fn quiet(code: u8) -> Self {
        Self { code, said: None }
    }

    /// With something to say.
    pub(super) fn saying(code: u8, said: impl Into<String>) -> Self {
        let said = Some(said.into());
        Self { code, said }
    }
}

impl From<Unrunnable> for Ending {
    fn from(unrunnable: Unrunnable) -> Self {
        Self::saying(unrunnable.code, unrunnable.message)
    }
}

/// The command was not run, because it was not granted what it needs.
pub(super) fn not_granted(
    decision: &Decision,
    resource: &Resource,
    key: Option<&str>,
    codes: Codes,
) -> Ending {
    let place = plain(&format!("{} {}", resource.kind, resource.id));
    let why = plain(&decision.explanation);
    let key = plain(key.unwrap_or_default());
    match decision.verdict() {
        Verdict::Replayed => done_before(decision, &key, codes),
        Verdict::Busy => {
            let holder = decision.now.as_ref().map(|now| plain(&now.live_holder));
            let holder = holder.filter(|holder| !holder.is_empty());
            let by = holder.map_or_else(String::new, |holder| format!(" by {holder}"));
            let code = codes.busy.unwrap_or(Exit::Retry.number());
            Ending::saying(code, format!("not run: {place} is held{by} ({why})"))
        }
        Verdict::InProgress => Ending::saying(
            codes.busy.unwrap_or(Exit::Retry.number()),
            format!("not run: somebody else is running {key} ({why})"),
        ),
        Verdict::Interrupted if decision.rule == OTHER_INTERRUPTED => Ending::saying(
            Exit::Interrupted.number(),
            format!(
                "not run: {why}; incident {} tells which it was, and a person says what came of it: fencepost incidents show, then \
                 fencepost resolve {place} KEY --reason TEXT, with --done, or with --not-done to let it run again",
                plain(&decision.incident_id)
            ),
        ),
        Verdict::TooEarly => Ending::saying(
            Exit::of_advice(decision.advice()).number(),
            format!("not run: it is too early, and nobody else does it meanwhile: {why}"),
        ),
        Verdict::Interrupted => Ending::saying(
            Exit::Interrupted.number(),
            format!(
                "not run: {key} was begun and its end is not known ({why}); {}",
                how_to_resolve(&place, &key)
            ),
        ),
        Verdict::Unspecified
        | Verdict::Granted
        | Verdict::Applied
        | Verdict::Conflict
        | Verdict::Superseded
        | Verdict::OtherRound
        | Verdict::Rejected
        | Verdict::Fenced
        | Verdict::Expired => Ending::saying(
            Exit::of_advice(decision.advice()).number(),
            format!("not run: {why}"),
        ),
    }
}

fn done_before(decision: &Decision, key: &str, codes: Codes) -> Ending {
    let code = decision.result.as_ref().map_or(0, |result| result.code);
    let when = decision.first_time.as_ref().map(Timestamp::to_string);
    let when = when.map_or_else(String::new, |when| format!(" at {when}"));
    let said = if decision.resolution.is_empty() {
        format!("not run: {key} was run before{when}, with exit code {code}")
    } else {
        // It need not have been run at all, and when it was nobody has said. The code is what the person gave, else 0.
        let by = plain(&decision.resolution);
        format!("not run: {key} was resolved by a person{when} ({by}), with exit code {code}")
    };
    // A person who resolved it may have given a code that no process can end with.
    let first = u8::try_from(code).unwrap_or_default();
    Ending::saying(codes.done.unwrap_or(first), said)
}

/// What a person does about an operation whose end is not known.
pub(super) fn how_to_resolve(place: &str, key: &str) -> String {
    format!(
        "find out what it did, then: fencepost resolve {place} {key} --reason TEXT, with --done, or with --not-done to let it \
         run again"
    )
}

/// The command ended with this code; what it came to was to be stored.
pub(super) fn stored(decision: &Decision, code: u8) -> Ending {
    match decision.verdict() {
        Verdict::Applied | Verdict::Replayed => Ending::quiet(code),
        Verdict::Unspecified
        | Verdict::Granted
        | Verdict::InProgress
        | Verdict::Busy
        | Verdict::Interrupted
        | Verdict::Conflict
        | Verdict::Superseded
        | Verdict::OtherRound
        | Verdict::TooEarly
        | Verdict::Rejected
        | Verdict::Fenced
        | Verdict::Expired => Ending::saying(
            if decision.advice() == Advice::Acknowledge {
                code
            } else {
                Exit::of_advice(decision.advice()).number()
            },
            format!(
                "the command ended with {code}, but that was not taken: {}",
                plain(&decision.explanation)
            ),
        ),
    }
}

/// The command ended with this code, and no answer said whether that was stored.
pub(super) fn not_stored(trouble: &Trouble, code: u8, to_find_out: &str) -> Ending {
    if !matches!(trouble.exit, Exit::Unknown | Exit::Unavailable) {
        return Ending::saying(
            trouble.exit.number(),
            format!(
                "the command ended with {code}, and it is not known whether that was stored: {}",
                trouble.message
            ),
        );
    }
    // What the trouble says besides is about a question with ids of its own, and only this process had those. That nobody heard the
    // last one does not say that nobody heard those before.
    Ending::saying(
        Exit::Unknown.number(),
        format!(
            "the command ended with {code}, and it is not known whether that was stored, for the sidecar could not be asked until \
             the reservation was over; {to_find_out}"
        ),
    )
}

/// What a person does about a key of which it is not known whether its result was stored. `reruns`: it may be one that runs again by
/// itself.
pub(super) fn how_to_find_out(place: &str, key: &str, reruns: bool) -> String {
    let resolve = format!("fencepost resolve {place} {key} --reason TEXT, with --done");
    if reruns {
        return format!(
            "if it was stored, whoever runs the same command again ends as the first run did, and {key} is not run again; if not, {key} \
             may be run again once the reservation is over; if it must not be, say so first: {resolve}"
        );
    }
    format!(
        "once a sidecar answers and the reservation is over, run the same command again: if it was stored, {key} is not run again, \
         and that ends as the first run did; if not, it ends with 14, and a person says what was done: {resolve}, or with \
         --not-done to let it run again"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::{Result as Stored, Snapshot};

    fn judged(verdict: Verdict, advice: Advice) -> Decision {
        Decision {
            verdict: verdict.into(),
            advice: advice.into(),
            explanation: "because".into(),
            ..Decision::default()
        }
    }

    fn ending(decision: &Decision, codes: Codes) -> Ending {
        let resource = Resource {
            kind: "job".into(),
            id: "backup".into(),
        };
        not_granted(decision, &resource, Some("k"), codes)
    }

    #[test]
    fn a_second_run_ends_as_the_first_did_unless_told_otherwise() {
        let mut done = judged(Verdict::Replayed, Advice::Acknowledge);
        for (first, code) in [(0, 0), (3, 3), (255, 255), (404, 0)] {
            done.result = Some(Stored {
                code: first,
                ..Stored::default()
            });
            let told = ending(&done, Codes::default());
            assert_eq!(told.code, code);
            assert!(told.said.unwrap().contains(&format!("exit code {first}")));
        }
        done.first_time = Some(Timestamp {
            seconds: 1_700_000_000,
            nanos: 0,
        });
        let mut resolved = done.clone();
        resolved.resolution = "ann said that it was done: in the books".into();
        let told = ending(&resolved, Codes::default()).said.unwrap();
        assert!(!told.contains("run before"), "{told}");
        let who = "resolved by a person at 2023-11-14T22:13:20Z (ann said that it was done: in the books)";
        assert!(told.contains(who), "{told}");
        let codes = Codes {
            done: Some(0),
            busy: Some(9),
        };
        let told = ending(&done, codes);
        assert_eq!(told.code, 0);
        assert!(told.said.unwrap().contains("at 2023-11-14T22:13:20Z"));
    }

    #[test]
    fn each_reason_not_to_run_has_its_code() {
        let cases = [
            (Verdict::Busy, Advice::Retry, 10),
            (Verdict::InProgress, Advice::Retry, 10),
            (Verdict::Interrupted, Advice::Retry, 14),
            (Verdict::TooEarly, Advice::Retry, 10),
            (Verdict::Conflict, Advice::Refuse, 11),
            (Verdict::Fenced, Advice::Abandon, 12),
        ];
        for (verdict, advice, code) in cases {
            let told = ending(&judged(verdict, advice), Codes::default());
            assert_eq!(told.code, code, "{verdict:?}");
            assert!(told.said.unwrap().contains("because"), "{verdict:?}");
        }
        // Only what somebody else does meanwhile is answered with the code that was chosen for that.
        let codes = Codes {
            busy: Some(0),
            done: None,
        };
        let early = ending(&judged(Verdict::TooEarly, Advice::Retry), codes);
        assert_eq!(early.code, 10);
        let said = early.said.unwrap();
        assert!(said.contains("too early, and nobody else"), "{said}");
        // A person who is sent to the wrong operation finds nothing there.
        let mut other = judged(Verdict::Interrupted, Advice::Retry);
        other.rule = OTHER_INTERRUPTED.into();
        other.incident_id = "inc-7".into();
        let said = ending(&other, codes).said.unwrap();
        assert!(!said.contains("k was begun"), "{said}");
        assert!(said.contains("incident inc-7"), "{said}");
        let mut busy = judged(Verdict::Busy, Advice::Retry);
        busy.now = Some(Snapshot {
            live_holder: "nightly\u{7} on db1".into(),
            ..Snapshot::default()
        });
        let told = ending(&busy, codes);
        assert_eq!(told.code, 0);
        assert!(told.said.unwrap().contains(r"held by nightly\u{7} on db1"));
    }

    #[test]
    fn a_result_that_was_not_taken_is_no_success() {
        let taken = judged(Verdict::Applied, Advice::Acknowledge);
        assert_eq!(stored(&taken, 3), Ending::quiet(3));
        let fenced = judged(Verdict::Fenced, Advice::Abandon);
        assert_eq!(stored(&fenced, 0).code, 12);
    }

    #[test]
    fn a_result_of_which_nothing_is_known_has_its_code_whatever_the_last_question_came_to() {
        for exit in [Exit::Unknown, Exit::Unavailable] {
            let trouble = Trouble {
                exit,
                message: "nothing was done".into(),
            };
            let told = not_stored(&trouble, 0, "look");
            assert_eq!(told.code, 75, "{exit:?}");
            let said = told.said.unwrap();
            assert!(
                said.ends_with("look") && !said.contains("nothing was done"),
                "{said}"
            );
        }
        // What will never be stored is another thing.
        let told = not_stored(&Trouble::failed("too large"), 0, "look");
        assert_eq!(told.code, 70);
        assert!(told.said.unwrap().ends_with("too large"));
    }
}
