//! Fence: only the live token passes, or the last one if that is what is asked.

use super::play::{BASE, Play};
use crate::domain::decision::{Rule, Verdict};
use crate::domain::ids::ReservationId;
use crate::domain::judge::{Ask, Judged};
use crate::domain::request::EndedRounds;
use crate::domain::token::TOKEN_MAX;

const STRICT: EndedRounds = EndedRounds::Refused;
const LAST: EndedRounds = EndedRounds::Accepted;

#[track_caller]
fn fenced(play: &mut Play, token: u64, ended: EndedRounds, rule: Rule) {
    let answer = play.fence(token, ended);
    let good = matches!(rule, Rule::Live | Rule::LastGranted);
    let verdict = if good {
        Verdict::Granted
    } else {
        Verdict::Fenced
    };
    let decision = answer.decision();
    assert_eq!((decision.verdict, decision.rule), (verdict, rule));
    let live = decision.now.as_ref().unwrap().live.as_ref();
    assert_eq!(
        live.is_some(),
        play.reservation.is_some(),
        "shows the live token"
    );
}

#[test]
fn the_live_token_passes_again_and_again() {
    let mut play = Play::new();
    let (_, held) = play.hold(1);
    for ended in [STRICT, STRICT, LAST] {
        fenced(&mut play, held.token.get(), ended, Rule::Live);
    }
}

#[test]
fn an_overtaken_token_is_refused_also_after_its_successor_has_finished() {
    let mut play = Play::new();
    let (_, old) = play.hold(1);
    play.expire();
    let (id, new) = play.hold(2);
    for ended in [STRICT, LAST] {
        fenced(&mut play, old.token.get(), ended, Rule::Overtaken);
        fenced(&mut play, new.token.get(), ended, Rule::Live);
        fenced(&mut play, old.token.get(), ended, Rule::Overtaken);
    }
    play.let_go(&id);
    for ended in [STRICT, LAST] {
        fenced(&mut play, old.token.get(), ended, Rule::Overtaken);
    }
}

#[test]
fn a_token_whose_round_is_over_passes_only_if_that_is_accepted() {
    for released in [true, false] {
        let mut play = Play::new();
        let (id, held) = play.hold(1);
        if released {
            play.let_go(&id);
        } else {
            play.expire();
        }
        fenced(&mut play, held.token.get(), STRICT, Rule::TokenEnded);
        fenced(&mut play, held.token.get(), LAST, Rule::LastGranted);
        // Later writes keep what the last token was.
        play.past(&[super::message::once("log")]);
        fenced(&mut play, held.token.get(), LAST, Rule::LastGranted);
    }
}

#[test]
fn a_token_that_was_never_granted_is_refused_and_stops_nobody() {
    let mut play = Play::new();
    for ended in [STRICT, LAST] {
        fenced(&mut play, 1, ended, Rule::NeverIssued);
        fenced(&mut play, BASE + 5, ended, Rule::NeverIssued);
    }
    let (id, held) = play.hold(1);
    for ended in [STRICT, LAST] {
        fenced(&mut play, TOKEN_MAX, ended, Rule::NeverIssued);
        fenced(&mut play, held.token.get() + 1, ended, Rule::NeverIssued);
        fenced(&mut play, held.token.get() - 1, ended, Rule::Overtaken);
        fenced(&mut play, held.token.get(), ended, Rule::Live);
    }
    play.let_go(&id);
    fenced(&mut play, TOKEN_MAX, LAST, Rule::NeverIssued);
}

#[test]
fn a_token_from_before_a_restore_is_refused() {
    let mut play = Play::new();
    let (_, held) = play.hold(1);
    play.timeline.min_token = held.token.get() + 1;
    fenced(&mut play, held.token.get(), STRICT, Rule::OlderTimeline);
    play.timeline.min_token = held.token.get();
    fenced(&mut play, held.token.get(), STRICT, Rule::Live);
}

#[test]
fn tokens_rise_over_a_restore_and_the_old_round_keeps_its_base() {
    let mut play = Play::new();
    let (_, held) = play.hold(1);
    play.timeline.base = BASE * 2;
    fenced(&mut play, held.token.get(), STRICT, Rule::Live);
    play.expire();
    let (_, next) = play.hold(2);
    assert!(next.token.get() > BASE * 2);
    fenced(&mut play, held.token.get(), LAST, Rule::Overtaken);
}

#[test]
fn a_round_that_ended_with_its_timeline_is_not_told_to_have_run_out() {
    let mut play = Play::new();
    let (first, _) = play.hold(1);
    let told = |play: &mut Play, id: &ReservationId| {
        let answer = play.ask(Ask::Check(id.clone()));
        (
            answer.decision().rule,
            answer.decision().explanation.clone(),
        )
    };
    play.expire();
    let (rule, text) = told(&mut play, &first);
    assert_eq!(rule, Rule::Lost);
    assert!(text.contains("time had run out"), "{text}");
    play.timeline.base = BASE * 2;
    let (rule, text) = told(&mut play, &first);
    assert_eq!(rule, Rule::Lost);
    assert!(text.contains("granted in an older timeline"), "{text}");
    // What its holder said itself stays so.
    let (id, _) = play.hold(2);
    play.let_go(&id);
    play.timeline.base = BASE * 3;
    assert_eq!(told(&mut play, &id).0, Rule::Released);
    // Of one before the last nobody knows any more which timeline it was of.
    let (rule, text) = told(&mut play, &first);
    assert_eq!(rule, Rule::Lost);
    assert!(text.contains("time had run out"), "{text}");
}

#[test]
fn a_token_is_not_judged_in_the_commit_that_grants() {
    let mut play = Play::new();
    let ask = super::message::fence_as(&play.resource, BASE + 11, LAST);
    let asks = [play.reserve(1), ask];
    let folded = play.fold_now(&asks);
    assert!(matches!(folded.judged[1], Judged::Later));
}

#[test]
fn in_the_fold_that_releases_the_token_is_over() {
    let mut play = Play::new();
    let (id, held) = play.hold(1);
    let token = held.token.get();
    let resource = play.resource.clone();
    let fence = |ended| super::message::fence_as(&resource, token, ended);
    let asks = [
        fence(STRICT),
        play.release(&id),
        fence(STRICT),
        fence(LAST),
        Ask::Inspect,
    ];
    let answers = play.ask_all(&asks);
    let rule = |at: usize| answers[at].decision().rule;
    assert_eq!(rule(0), Rule::Live);
    assert_eq!((rule(2), rule(3)), (Rule::TokenEnded, Rule::LastGranted));
    assert!(answers[4].snapshot().live.is_none());
}
