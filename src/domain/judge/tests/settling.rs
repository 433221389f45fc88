//! As long as an earlier commit may still arrive, whatever is folded puts the record, so that the earlier one no longer can.

use super::message::{moves, once};
use super::play::{Play, Refused, answered};
use crate::domain::decision::{Rule, Verdict};
use crate::domain::judge::{Ask, Judged};

fn old() -> Play {
    let mut play = Play::new();
    play.when.wall_ms = 365 * 24 * 3_600_000;
    play
}

#[test]
fn a_first_commit_cannot_land_after_its_request_has_become_too_old() {
    for known in [false, true] {
        let mut play = old();
        if known {
            play.past(&[once("before")]);
        }
        let edge = play.when.wall_ms - 96 * 3_600_000 + 6 * 60_000;
        let ask = play.message(&moves("op", "", "paid").initially("new").made_at(edge));
        let first = play.fold_now(std::slice::from_ref(&ask));
        assert!(matches!(&first.judged[..], [Judged::Answered(_)]));
        // It is under way, and time goes on.
        play.when.wall_ms += 10 * 60_000;
        play.settling = true;
        let second = play.fold_now(std::slice::from_ref(&ask));
        let at = play.apply(&second).unwrap();
        let told = answered(second.judged.into_iter().next().unwrap()).finish(at);
        let decision = told.decision();
        assert_eq!(
            (decision.verdict, decision.rule),
            (Verdict::Expired, Rule::TooOld)
        );
        assert_eq!(decision.now.as_ref().unwrap().revision, at);
        assert_eq!(play.apply(&first), Err(Refused), "it landed after all");
    }
}

#[test]
fn what_writes_nothing_by_itself_puts_the_record_all_the_same() {
    let mut play = Play::new();
    play.past(&[once("op").saying("receipt")]);
    let (round, _) = play.hold(1);
    let early = moves("early", "paid", "shipped").under(&round);
    for settling in [false, true] {
        play.settling = settling;
        let nonce = play.nonce();
        for ask in [
            play.message(&once("op")),
            play.message(&early),
            play.reserve(2),
            Ask::Check(round.clone()),
            Ask::Release(
                play.id_of(nonce),
                crate::domain::request::Left::Unsaid,
                nonce,
            ),
            Ask::Lookup(super::message::operation("op").into()),
        ] {
            let before = play.record.clone().unwrap();
            let folded = play.fold_now(std::slice::from_ref(&ask));
            assert_eq!(folded.write.is_some(), settling, "{ask:?}");
            play.apply(&folded).unwrap();
            let after = play.record.clone().unwrap();
            assert_eq!(after.1 > before.1, settling, "{ask:?}");
            assert_eq!(after.0.state, before.0.state);
            assert_eq!(after.0.operations.len(), before.0.operations.len());
        }
    }
}
