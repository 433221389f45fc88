//! One law at a time: nothing is decided under a machine that has been replaced, whatever a sidecar has heard of it.

use std::collections::BTreeSet;
use std::time::Duration;

use fencepost::domain::decision::{Decision, Layer, Rule, Verdict};
use fencepost::domain::ids::{Kind, ResourceId};
use fencepost::domain::machine::{MachineVersion, Title};
use fencepost::domain::outcome::StoredResult;
use fencepost::engine::clock::wall_clock_ms;
use fencepost::engine::{Applied, Clock, EngineOptions, Fault, MachineList};
use futures_util::future::join_all;

use crate::support::ask::{Ask, ask, body, fresh_resource, reserve, resource_of as resource};
use crate::support::backend::Backend;
use crate::support::claim::{applied, judged, replayed};
use crate::support::engines;
use crate::support::fault::{Action, Ending, FaultPlan, Rpc};
use crate::support::sidecar::{Sidecar, caller};

/// A sidecar that waits for a held request must not give up meanwhile.
const PATIENT_CALL: Duration = Duration::from_secs(15);

/// A kind of its own for each test.
fn fresh_kind() -> String {
    format!("lamp-{}", fresh_resource().id())
}

/// A lamp that goes on and off; what `push` leads to depends on the version.
fn lamp(kind: &str, version: u32, push: &str) -> String {
    let hidden = if push == "on" { "broken" } else { "on" };
    format!(
        "kind: {kind}\nversion: {version}\nretention: 1h\nstates: {{ off: {{}}, on: {{}}, broken: {{}}, gone: {{ final: true }} }}\n\
         events:\n  make: {{ creates: off }}\n  push: {{ from: [off], to: {push} }}\n  other: {{ from: [off], to: {hidden} }}\n  \
         take: {{ from: [on, broken], to: gone }}\n"
    )
}

fn make(lamp: &ResourceId) -> Ask {
    ask(lamp, "make").event("make")
}

fn push(lamp: &ResourceId) -> Ask {
    ask(lamp, "push").event("push")
}

fn version_of(decision: &Decision) -> u32 {
    let now = decision.now.as_ref().expect("it shows the resource");
    now.machine.map_or(0, |version| version.get())
}

/// A sidecar that never hears anything by itself.
async fn deaf(backend: &Backend) -> (Sidecar, FaultPlan) {
    let (sidecar, plan) = backend.faulty_within(PATIENT_CALL).await;
    plan.when(Rpc::Watch).always().then(Action::Cut);
    (sidecar, plan)
}

async fn a_machine_judges_at_every_sidecar_from_the_moment_it_is_in_force(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, _plan) = deaf(&backend).await;
    let kind = fresh_kind();
    let before = resource(&kind, "before");
    applied(
        &two.transition(&ask(&before, "m").initial("new").to("off"))
            .await,
    );
    let unknown = two.try_transition(&push(&before)).await;
    assert!(
        matches!(unknown, Err(Fault::UnknownKind { .. })),
        "{unknown:?}"
    );

    one.install(&lamp(&kind, 1, "on")).await;
    let lamp = resource(&kind, "1");
    let made = two.transition(&make(&lamp)).await;
    applied(&made);
    assert_eq!(version_of(&made), 1);
    let plain = two.try_transition(&ask(&lamp, "x").to("on")).await;
    let Err(Fault::InvalidField { field, reason }) = plain else {
        panic!("{plain:?}");
    };
    assert!(
        field == "intent.move" && reason.contains(&kind),
        "{field} {reason}"
    );
    let absent = two.try_transition(&ask(&lamp, "x")).await;
    assert!(
        matches!(&absent, Err(Fault::InvalidField { field, .. }) if field == "intent.event"),
        "{absent:?}"
    );
    let unknown = two.try_transition(&ask(&lamp, "x").event("pusch")).await;
    assert!(
        matches!(unknown, Err(Fault::UnknownEvent { .. })),
        "{unknown:?}"
    );
    // What was done before the machine stays done, and its resource goes on in it.
    let again = one
        .transition(&ask(&before, "m").initial("new").to("off"))
        .await;
    assert_eq!(again.verdict, Verdict::Replayed);
    applied(&one.transition(&push(&before)).await);
    // Other kinds have nothing to do with it.
    applied(
        &two.transition(&ask(&fresh_resource(), "m").initial("new").to("off"))
            .await,
    );
}

async fn versions_only_rise_and_what_they_drop_is_accounted_for(backend: Backend) {
    let [one, two] = backend.sidecars().await;
    let kind = fresh_kind();
    let second = lamp(&kind, 2, "on");
    one.install(&second).await;
    let (same, _) = two.apply(&format!("# another layout\n{second}")).await;
    assert!(
        matches!(&same, Applied::Same(known) if known.version.get() == 2),
        "{same:?}"
    );
    let (lower, _) = two.apply(&lamp(&kind, 1, "broken")).await;
    assert!(
        matches!(&lower, Applied::Lower(known) if known.version.get() == 2),
        "{lower:?}"
    );
    let (other, found) = two.apply(&lamp(&kind, 2, "broken")).await;
    assert!(matches!(other, Applied::Refused), "{other:?}");
    assert!(
        found[0].contains("error[version]") && found[0].contains("write version 3"),
        "{found:?}"
    );
    let dropped = lamp(&kind, 3, "on")
        .replace(", broken: {}", "")
        .replace("on, broken", "on")
        .replace("  other: { from: [off], to: broken }\n", "");
    let (unmapped, found) = two.apply(&dropped).await;
    assert!(matches!(unmapped, Applied::Refused), "{unmapped:?}");
    assert!(
        found.iter().all(|line| line.contains("[unmapped]")),
        "{found:?}"
    );
    assert_eq!(found.len(), 2, "a state and an event: {found:?}");
    let (wrong, found) = two.apply("kind: [").await;
    assert!(matches!(wrong, Applied::Refused) && !found.is_empty());
    two.install(&format!(
        "{dropped}map: {{ states: {{ broken: off }}, events: {{ other: none }} }}\n"
    ))
    .await;
    let parsed = Kind::parse(&kind).unwrap();
    let of_kind = MachineList::Versions(parsed.clone());
    let history = listed(&one, &of_kind, 1).await;
    let versions: Vec<u32> = history.iter().map(|title| title.version.get()).collect();
    assert_eq!(versions, [2, 3]);
    let older = one
        .engine
        .machine(parsed.clone(), MachineVersion::new(2), caller());
    assert_eq!(older.await.unwrap().unwrap().source, second.as_bytes());
    let in_force = one
        .engine
        .machine(parsed.clone(), None, caller())
        .await
        .unwrap();
    assert_eq!(in_force.unwrap().version.get(), 3);
    let none = one.engine.machine(parsed, MachineVersion::new(1), caller());
    assert_eq!(none.await.unwrap(), None);
    let all = listed(&one, &MachineList::InForce, 1).await;
    assert_eq!(
        all.iter()
            .filter(|title| title.kind.as_str() == kind)
            .count(),
        1
    );
}

/// A whole list, in pages of this size.
async fn listed(sidecar: &Sidecar, list: &MachineList, size: usize) -> Vec<Title> {
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let page = sidecar
            .engine
            .machine_page(list.clone(), after, size, caller());
        let page = page.await.unwrap();
        assert!(page.machines.len() <= size);
        all.extend(page.machines);
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
}

// The files in one answer of etcd would be megabytes; what a list costs follows from the size of its page.
async fn a_list_of_machines_comes_in_pages_and_applying_one_reads_no_other(backend: Backend) {
    const KINDS: usize = 40;
    let (one, plan) = backend.faulty().await;
    let kinds: BTreeSet<String> = (0..KINDS).map(|_| fresh_kind()).collect();
    let large = format!("# {}\n", "x".repeat(250 * 1024));
    // Whose machines it is asks for them itself at the start; what the first costs is not told apart from that.
    let mut installing = Vec::new();
    for kind in &kinds {
        let before = plan.counts();
        one.install(&(lamp(kind, 1, "on") + &large)).await;
        installing.push(plan.counts().since(&before));
    }
    for took in &installing[1..] {
        // What is in force, how many are, and the commit.
        let found = (took.of(Rpc::Range), took.of(Rpc::Txn));
        assert_eq!(found, (2, 1), "{took}");
    }
    for size in [1, 7, 8, 200] {
        let all = listed(&one, &MachineList::InForce, size).await;
        let names: Vec<&str> = all.iter().map(|title| title.kind.as_str()).collect();
        assert!(names.iter().copied().eq(kinds.iter().map(String::as_str)));
    }
    // 8 MiB are read for a page, and at most 8 machines more.
    let before = plan.counts();
    let page = one
        .engine
        .machine_page(MachineList::InForce, None, 200, caller());
    let page = page.await.unwrap();
    assert!(
        page.next.is_some() && page.machines.len() <= 40,
        "{}",
        page.machines.len()
    );
    assert!(plan.counts().since(&before).of(Rpc::Range) <= 5);
}

async fn of_different_files_that_are_offered_at_once_one_is_put_in_force(backend: Backend) {
    let sidecars = backend.sidecars().await;
    let kind = fresh_kind();
    let files: Vec<String> = ["on", "broken"].map(|to| lamp(&kind, 1, to)).into();
    let offers = (0..12).map(|at| sidecars[at % 2].apply(&files[at / 2 % 2]));
    let outcomes = join_all(offers).await;
    let count = |wanted: fn(&Applied) -> bool| {
        outcomes
            .iter()
            .filter(|(applied, _)| wanted(applied))
            .count()
    };
    assert_eq!(
        count(|applied| matches!(applied, Applied::Installed(_))),
        1,
        "{outcomes:?}"
    );
    assert_eq!(
        count(|applied| matches!(applied, Applied::Same(_))),
        5,
        "{outcomes:?}"
    );
    assert_eq!(
        count(|applied| matches!(applied, Applied::Refused)),
        6,
        "{outcomes:?}"
    );
}

async fn a_move_that_was_judged_by_a_replaced_machine_is_judged_again(backend: Backend) {
    let (one, plan) = deaf(&backend).await;
    let two = backend.sidecar().await;
    let kind = fresh_kind();
    two.install(&lamp(&kind, 1, "on")).await;
    for version in 2..4 {
        let lamp_id = resource(&kind, fresh_resource().id());
        applied(&one.transition(&make(&lamp_id)).await);
        let held = plan
            .when(Rpc::Txn)
            .containing(lamp_id.id())
            .then(Action::Hold);
        let (sidecar, asked) = (one.clone(), push(&lamp_id));
        let call = tokio::spawn(async move { sidecar.transition(&asked).await });
        held.met().await;
        let leads_to = ["broken", "on"][version as usize % 2];
        two.install(&lamp(&kind, version, leads_to)).await;
        held.deliver().await;
        let pushed = call.await.unwrap();
        applied(&pushed);
        assert_eq!(version_of(&pushed), version);
        assert_eq!(two.state(&lamp_id).await, leads_to, "version {version}");
    }
}

async fn a_no_that_was_judged_by_a_replaced_machine_is_judged_again(backend: Backend) {
    let (one, plan) = deaf(&backend).await;
    let two = backend.sidecar().await;
    let kind = fresh_kind();
    two.install(&lamp(&kind, 1, "on")).await;
    let lamp_id = resource(&kind, "1");
    applied(&one.transition(&make(&lamp_id)).await);
    let take = ask(&lamp_id, "take").event("take");
    judged(
        &one.transition(&take).await,
        Verdict::TooEarly,
        Layer::State,
        Rule::NotYetReached,
    );
    let held = plan
        .when(Rpc::Txn)
        .containing(lamp_id.id())
        .then(Action::Hold);
    let (sidecar, asked) = (one.clone(), take.clone());
    let call = tokio::spawn(async move { sidecar.transition(&asked).await });
    held.met().await;
    two.install(&lamp(&kind, 2, "on").replace("[on, broken]", "[off, on, broken]"))
        .await;
    held.deliver().await;
    applied(&call.await.unwrap());
    // Also of what the machine does not know, and of what it knows now.
    let mend = ask(&lamp_id, "mend").event("mend");
    let unknown = one.try_transition(&mend).await;
    assert!(
        matches!(unknown, Err(Fault::UnknownEvent { .. })),
        "{unknown:?}"
    );
    let third = lamp(&kind, 3, "on").replace("[on, broken]", "[off, on, broken]");
    two.install(&format!("{third}  mend: {{ from: [broken], to: off }}\n"))
        .await;
    let known = one.transition(&mend).await;
    assert_eq!(known.verdict, Verdict::Rejected);
    assert_eq!(version_of(&known), 3);
}

/// When each version was put in force, and everything that was committed meanwhile with the version that judged it.
async fn every_move_was_judged_by_the_version_that_was_in_force_when_it_was_made(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, _plan) = deaf(&backend).await;
    let kind = fresh_kind();
    one.install(&lamp(&kind, 1, "on")).await;
    let mut raw = backend.raw().await;
    let key = format!("{}m/{kind}", backend.prefix());
    let mut since = vec![raw.get(key.clone(), None).await.unwrap().kvs()[0].mod_revision()];
    let calls = |sidecar: Sidecar, name: &'static str| {
        let kind = kind.clone();
        tokio::spawn(async move {
            let mut all = Vec::new();
            for at in 0..150 {
                let lamp = resource(&kind, &format!("{name}-{at}"));
                for message in [make(&lamp), push(&lamp), ask(&lamp, "t").event("take")] {
                    all.push(sidecar.transition(&message).await);
                }
            }
            all
        })
    };
    let busy = [calls(one.clone(), "a"), calls(two.clone(), "b")];
    let mut version = 1;
    while !busy.iter().all(tokio::task::JoinHandle::is_finished) && version < 60 {
        version += 1;
        one.install(&lamp(
            &kind,
            version,
            ["on", "broken"][version as usize % 2],
        ))
        .await;
        since.push(raw.get(key.clone(), None).await.unwrap().kvs()[0].mod_revision());
    }
    assert!(version > 5, "only {version} versions while calls ran");
    let mut by_older = 0;
    for call in busy {
        for decision in call.await.unwrap() {
            applied(&decision);
            let at = decision.now.as_ref().unwrap().revision.unwrap().get() as i64;
            let in_force = since.iter().filter(|since| **since < at).count();
            assert_eq!(
                version_of(&decision) as usize,
                in_force,
                "at {at}: {since:?}"
            );
            by_older += usize::from(in_force < since.len());
        }
    }
    assert!(
        by_older > 0,
        "nothing was judged before the last version came"
    );
}

// H4: a sidecar that comes to a resource of a version that it cannot know refuses it, and says why.
async fn a_resource_whose_version_is_not_in_force_is_not_judged(backend: Backend) {
    let one = backend.sidecar().await;
    let kind = fresh_kind();
    let key = format!("{}m/{kind}", backend.prefix());
    one.install(&lamp(&kind, 1, "on")).await;
    let mut raw = backend.raw().await;
    let first = raw.get(key.clone(), None).await.unwrap().kvs()[0]
        .value()
        .to_vec();
    one.install(&lamp(&kind, 2, "on")).await;
    let lamp_id = resource(&kind, "1");
    applied(&one.transition(&make(&lamp_id)).await);
    // Somebody puts back by hand what was before, then takes it away.
    raw.put(key.clone(), first, None).await.unwrap();
    for two in [one.clone(), backend.sidecar().await] {
        let refused = two.try_transition(&push(&lamp_id)).await;
        let Err(Fault::MachineMismatch { reason }) = refused else {
            panic!("{refused:?}");
        };
        assert!(reason.contains("version 2"), "{reason}");
    }
    raw.delete(key.clone(), None).await.unwrap();
    let refused = one.try_transition(&ask(&lamp_id, "x").to("on")).await;
    assert!(
        matches!(refused, Err(Fault::MachineMismatch { .. })),
        "{refused:?}"
    );
    // What is no machine judges nothing, and is never overwritten.
    raw.put(key.clone(), "foreign", None).await.unwrap();
    let refused = one.try_transition(&push(&lamp_id)).await;
    assert!(
        matches!(refused, Err(Fault::MachineMismatch { .. })),
        "{refused:?}"
    );
    let source = bytes::Bytes::from(lamp(&kind, 3, "on"));
    let over = one.engine.apply_machine(source, caller()).await;
    assert!(matches!(over, Err(Fault::CorruptRecord)), "{over:?}");
    applied(
        &one.transition(&ask(&fresh_resource(), "m").initial("new").to("off"))
            .await,
    );
    let round = one.hold(&reserve(&resource(&kind, "2"))).await;
    one.release(&round.id).await;
}

// H2: who comes later finds the state, not the beginning.
async fn a_sidecar_that_starts_anew_begins_nothing_anew(backend: Backend) {
    let one = backend.sidecar().await;
    let kind = fresh_kind();
    one.install(&lamp(&kind, 1, "on")).await;
    let lamp_id = resource(&kind, "1");
    applied(&one.transition(&make(&lamp_id)).await);
    applied(&one.transition(&push(&lamp_id).result("lit")).await);
    drop(one);
    let two = backend.sidecar().await;
    let shown = two.inspect(&lamp_id).await;
    assert_eq!(shown.state.unwrap().as_str(), "on");
    assert_eq!(shown.machine.unwrap().get(), 1);
    let allowed: Vec<&str> = shown.allowed.iter().map(|event| event.as_str()).collect();
    assert_eq!(allowed, ["take"]);
    let absent = two.inspect(&resource(&kind, "2")).await;
    assert_eq!((absent.state, absent.revision), (None, None));
    let again = two.transition(&ask(&lamp_id, "again").event("make")).await;
    assert_eq!(again.verdict, Verdict::Superseded);
    let other = two.transition(&ask(&lamp_id, "other").event("other")).await;
    judged(&other, Verdict::Rejected, Layer::State, Rule::Passed);
    replayed(&two.transition(&push(&lamp_id)).await, &body("lit"));
    assert_eq!(two.state(&lamp_id).await, "on");
}

async fn whether_a_machine_is_in_force_is_told_truly_when_replies_are_lost(backend: Backend) {
    for action in [
        Action::LoseReply(Ending::Silence),
        Action::LoseReply(Ending::Reset),
        Action::DeliverLate(Ending::Reset),
        Action::Lose,
    ] {
        let (one, plan) = backend.faulty().await;
        let kind = fresh_kind();
        let version_key = format!("mh/{kind}/");
        let late = matches!(action, Action::DeliverLate(_));
        let lost = plan.when(Rpc::Txn).containing(&version_key).then(action);
        one.install(&lamp(&kind, 1, "on")).await;
        assert_eq!(lost.hits(), 1);
        if late {
            lost.deliver().await;
        }
        let parsed = Kind::parse(&kind).unwrap();
        let known = one.engine.machine(parsed, None, caller()).await.unwrap();
        assert_eq!(known.unwrap().version.get(), 1);
        applied(&one.transition(&make(&resource(&kind, "1"))).await);
    }
}

/// A bill that is paid once; `digest` says what of the payment counts.
fn bill(kind: &str, version: u32, digest: &str) -> String {
    format!(
        "kind: {kind}\nversion: {version}\nretention: 1h\nstates: {{ due: {{}}, paid: {{}} , gone: {{ final: true }} }}\n\
         events:\n  make: {{ creates: due }}\n  pay: {{ from: [due], to: paid, digest: {digest} }}\n  \
         end: {{ from: [paid], to: gone }}\n"
    )
}

fn pay(bill: &ResourceId, content: &str) -> Ask {
    ask(bill, "pay").event("pay").json(content)
}

async fn what_an_event_leaves_out_of_its_digest_tells_no_two_messages_apart(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, _plan) = deaf(&backend).await;
    let kind = fresh_kind();
    one.install(&bill(&kind, 1, "{ exclude: [/sent_at, /nonce] }"))
        .await;
    let bill = resource(&kind, "1");
    applied(&one.transition(&make(&bill)).await);
    let sent = [
        r#"{"amount": 10, "sent_at": "22:00", "nonce": 1}"#,
        r#"{"nonce": 2, "amount": 10.0, "sent_at": "22:05"}"#,
        r#"{"amount": 10}"#,
    ];
    applied(&two.transition(&pay(&bill, sent[0])).await);
    for content in sent {
        for sidecar in [&one, &two] {
            replayed(
                &sidecar.transition(&pay(&bill, content)).await,
                &StoredResult::default(),
            );
        }
    }
    let other = two
        .transition(&pay(&bill, r#"{"amount": 11, "sent_at": "22:00"}"#))
        .await;
    judged(&other, Verdict::Conflict, Layer::Digest, Rule::OtherContent);
    assert_eq!(other.differing, ["/amount"]);
    let (_, counts) = two.engine.counts();
    let of_pay = counts.iter().find(|row| {
        let event = row.event.as_ref().map(|event| event.as_str());
        row.kind.as_ref() == Some(bill.kind()) && event == Some("pay")
    });
    let verdicts = &of_pay.expect("the event has a row of its own").verdicts;
    assert_eq!(verdicts[&Verdict::Applied], 1);
    assert_eq!(verdicts[&Verdict::Replayed], 3);
    assert_eq!(verdicts[&Verdict::Conflict], 1);
    // A text that holds JSON has no parts, so nothing of it is left out.
    let text = resource(&kind, "2");
    applied(&one.transition(&make(&text)).await);
    let held = r#""{\"amount\": 10, \"sent_at\": \"22:00\"}""#;
    applied(&one.transition(&pay(&text, held)).await);
    replayed(
        &two.transition(&pay(&text, held)).await,
        &StoredResult::default(),
    );
}

// Whoever asks, and whatever is known of the operation already.
async fn a_part_that_counts_and_lacks_is_told_also_when_the_operation_is_done(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, _plan) = deaf(&backend).await;
    let kind = fresh_kind();
    one.install(&bill(&kind, 1, "{ include: [/amount] }")).await;
    let bill = resource(&kind, "1");
    applied(&one.transition(&make(&bill)).await);
    applied(&two.transition(&pay(&bill, r#"{"amount": 10}"#)).await);
    for sidecar in [&one, &two] {
        let lacking = sidecar.try_transition(&pay(&bill, r#"{"note": 1}"#)).await;
        assert!(
            matches!(&lacking, Err(Fault::InvalidField { reason, .. }) if reason.contains("/amount")),
            "{lacking:?}"
        );
        let again = sidecar
            .transition(&pay(&bill, r#"{"amount": 10, "note": 1}"#))
            .await;
        replayed(&again, &StoredResult::default());
    }
}

async fn what_is_compared_is_what_was_stored_under_every_version(backend: Backend) {
    let one = backend.sidecar().await;
    let (two, _plan) = deaf(&backend).await;
    let kind = fresh_kind();
    one.install(&bill(&kind, 1, "{ include: [/amount, /currency] }"))
        .await;
    let bill_1 = resource(&kind, "1");
    applied(&one.transition(&make(&bill_1)).await);
    let lacking = two.try_transition(&pay(&bill_1, r#"{"amount": 10}"#)).await;
    assert!(
        matches!(&lacking, Err(Fault::InvalidField { field, reason })
            if field == "intent.json" && reason.contains("/currency")),
        "{lacking:?}"
    );
    let first = r#"{"amount": 10, "currency": "EUR", "note": "a"}"#;
    let again = r#"{"amount": 10.00, "currency": "EUR", "note": "b"}"#;
    let other = r#"{"amount": 11, "currency": "EUR", "note": "a"}"#;
    applied(&one.transition(&pay(&bill_1, first)).await);
    for rule in [None, Some("{ exclude: [/note] }"), Some("none")] {
        if let Some(rule) = rule {
            let version = if rule == "none" { 3 } else { 2 };
            one.install(&bill(&kind, version, rule)).await;
        }
        for sidecar in [&one, &two] {
            replayed(
                &sidecar.transition(&pay(&bill_1, again)).await,
                &StoredResult::default(),
            );
            let told = sidecar.transition(&pay(&bill_1, other)).await;
            judged(&told, Verdict::Conflict, Layer::Digest, Rule::OtherContent);
            assert_eq!(told.differing, ["/amount"], "{rule:?}");
        }
    }
    // What was read under the rule before is stored and compared under the one in force.
    let bill_2 = resource(&kind, "2");
    applied(&two.transition(&make(&bill_2)).await);
    applied(&two.transition(&pay(&bill_2, first)).await);
    replayed(
        &one.transition(&pay(&bill_2, other)).await,
        &StoredResult::default(),
    );
}

async fn a_machine_says_how_long_its_operations_are_kept(backend: Backend) {
    let clock = Clock::default();
    let options = || EngineOptions {
        clock: clock.clone(),
        ..EngineOptions::default()
    };
    let (one, _) = backend.keeping(options()).await;
    let (two, _) = backend.keeping(options()).await;
    let kind = fresh_kind();
    one.install(&bill(&kind, 1, "none").replace("states:", "forget: 2h\nstates:"))
        .await;
    let ended = resource(&kind, "1");
    let paid = resource(&kind, "2");
    let made = wall_clock_ms();
    for bill in [&ended, &paid] {
        applied(&one.transition(&make(bill)).await);
        applied(&one.transition(&pay(bill, "1")).await);
    }
    let end = ask(&ended, "end").event("end");
    applied(&one.transition(&end).await);
    // An hour, and what sidecars may know differently of the time.
    let step = Duration::from_secs(95 * 60);
    clock.pass(step);
    for sidecar in [&one, &two] {
        sidecar.engine.sweep().await.expect("a sweep is made");
    }
    let late = two.transition(&end.clone().made_at(made)).await;
    judged(&late, Verdict::Expired, Layer::Key, Rule::TooOld);
    assert_eq!(one.state(&ended).await, "gone");
    // Past an hour without its last touch, and two of being untouched, the one at rest is forgotten, and no other is.
    for _ in 0..100 {
        clock.pass(step);
        for sidecar in [&one, &two] {
            sidecar.engine.sweep().await.expect("a sweep is made");
        }
        if one.state(&ended).await.is_empty() {
            break;
        }
    }
    assert_eq!(one.state(&ended).await, "");
    assert_eq!(two.state(&paid).await, "paid");
}

engines! {
    a_list_of_machines_comes_in_pages_and_applying_one_reads_no_other,
    a_part_that_counts_and_lacks_is_told_also_when_the_operation_is_done,
    what_an_event_leaves_out_of_its_digest_tells_no_two_messages_apart,
    what_is_compared_is_what_was_stored_under_every_version,
    a_machine_says_how_long_its_operations_are_kept,
    a_machine_judges_at_every_sidecar_from_the_moment_it_is_in_force,
    versions_only_rise_and_what_they_drop_is_accounted_for,
    of_different_files_that_are_offered_at_once_one_is_put_in_force,
    a_move_that_was_judged_by_a_replaced_machine_is_judged_again,
    a_no_that_was_judged_by_a_replaced_machine_is_judged_again,
    every_move_was_judged_by_the_version_that_was_in_force_when_it_was_made,
    a_resource_whose_version_is_not_in_force_is_not_judged,
    a_sidecar_that_starts_anew_begins_nothing_anew,
    whether_a_machine_is_in_force_is_told_truly_when_replies_are_lost,
}
