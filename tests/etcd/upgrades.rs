//! Members that are restarted one by one, each as a newer version, while there is traffic.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use fencepost::domain::decision::{Decision, Verdict};
use fencepost::domain::ids::ResourceId;
use fencepost::domain::token::FencingToken;
use fencepost::engine::{AtClose, Boottime, Fault, HoldNews};
use fencepost::store::Version;
use futures_util::future::join_all;

use crate::support::ask::{ask, body, create, fresh_resource, reserve_for};
use crate::support::claim::{applied, replayed};
use crate::support::cluster::{Cluster, MEMBERS};
use crate::support::sidecar::{Sidecar, caller_for};
use crate::support::{TEST_LIMIT, etcd, until};

/// The programs to go through, separated by colons: the matrix of versions names them. Otherwise all are the same one, and this is
/// a restart of a whole cluster.
const PROGRAMS: &str = "TEST_ETCD_UPGRADES";
const PREFIX: &str = "/upgraded/";
const CALL_TIMEOUT: Duration = Duration::from_secs(1);
/// Elections take seconds on a busy machine.
const BACK_WITHIN: Duration = Duration::from_secs(40);
/// Shorter than what an operator has who replaces a member, longer than an election.
const HOLD_SECONDS: u32 = 10;
/// Entries after which a member saves a snapshot, so that it replays none from before it. 3.7 cannot read the entries that 3.5
/// wrote, and does not start while there is one to replay.
const SNAPSHOT_EVERY: &str = "--snapshot-count=50";
/// What a member of any version logs then.
const SAVED: &str = "saved snapshot";
/// Operations of each worker that must be through before the next member goes.
const PROGRESS: usize = 3;

fn programs() -> Vec<PathBuf> {
    let named = std::env::var_os(PROGRAMS);
    let named: Vec<PathBuf> = named.iter().flat_map(std::env::split_paths).collect();
    if named.is_empty() {
        return vec![etcd::program(); 2];
    }
    for program in &named {
        assert!(
            program.is_file(),
            "{PROGRAMS} names {program:?}, which is no file"
        );
    }
    assert!(named.len() > 1, "{PROGRAMS} names only {named:?}");
    named
}

/// Major and minor.
fn line(version: Version) -> String {
    let version = version.to_string();
    let (line, _) = version.rsplit_once('.').expect("three numbers");
    line.to_owned()
}

/// What an outage may answer. Asking again with the same ids gives the truth.
fn passes(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::StoreUnavailable { .. } | Fault::UnknownOutcome { .. } | Fault::DeadlinePassed
    )
}

async fn insisted<T, F: Future<Output = Result<T, Fault>>>(call: impl Fn() -> F) -> T {
    until("there is an answer", BACK_WITHIN, || async {
        match call().await {
            Ok(answer) => Some(answer),
            Err(fault) => {
                assert!(passes(&fault), "{fault:?}");
                None
            }
        }
    })
    .await
}

/// What was told of one order and one seat.
#[derive(Default)]
struct Told {
    /// The result of each operation.
    done: BTreeMap<String, String>,
    tokens: Vec<FencingToken>,
}

/// Moves an order and takes turns at a seat until it is over.
async fn works(
    sidecar: &Sidecar,
    [order, seat]: &[ResourceId; 2],
    told: &Mutex<Told>,
    over: &Mutex<bool>,
) {
    for nth in 0.. {
        if *over.lock().unwrap() {
            return;
        }
        let operation = format!("op-{nth}");
        let note = ask(order, &operation).stay().result(&operation);
        let decision: Decision = insisted(|| sidecar.try_transition(&note)).await;
        assert!(
            matches!(decision.verdict, Verdict::Applied | Verdict::Replayed),
            "{decision:?}"
        );
        assert_eq!(decision.result, Some(body(&operation)));
        let ask = reserve_for(seat, HOLD_SECONDS);
        let reserved = insisted(|| sidecar.try_reserve(&ask)).await;
        let grant = reserved.grant.expect("nobody else asks for it");
        let ended = insisted(|| sidecar.try_release(&grant.id)).await;
        assert!(
            matches!(ended.verdict, Verdict::Applied | Verdict::Replayed),
            "{ended:?}"
        );
        let mut told = told.lock().unwrap();
        let last = told.tokens.last().copied();
        assert!(Some(grant.token) > last, "{grant:?} after {last:?}");
        told.tokens.push(grant.token);
        told.done.insert(operation.clone(), operation);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_are_replaced_one_by_one_lose_no_hold_and_tell_no_lie() {
    let programs = programs();
    let (old, newer) = programs.split_first().unwrap();
    // Each version has the whole limit of a test.
    let limit = TEST_LIMIT * u32::try_from(newer.len()).unwrap();
    let replaced = tokio::time::timeout(limit, Box::pin(replaced(old, newer)));
    assert!(replaced.await.is_ok(), "it took longer than {limit:?}");
}

async fn replaced(old: &Path, newer: &[PathBuf]) {
    let mut cluster = Cluster::start_with(old, SNAPSHOT_EVERY).await;
    let mut sidecars = Vec::new();
    for first in 0..MEMBERS {
        let endpoints = cluster.endpoints_from(first);
        sidecars.push(Sidecar::on(endpoints, None, PREFIX, CALL_TIMEOUT).await);
    }
    let kept = fresh_resource();
    let hold = sidecars[0].hold(&reserve_for(&kept, HOLD_SECONDS)).await;
    let opened = Boottime::now();
    let patient = caller_for(2 * CALL_TIMEOUT);
    let ids = vec![hold.id.clone()];
    let mut holding = sidecars[0]
        .engine
        .hold(ids, AtClose::Keep, patient)
        .await
        .unwrap();

    let workers: Vec<_> = sidecars
        .iter()
        .map(|sidecar| {
            let resources = [fresh_resource(), fresh_resource()];
            (sidecar, resources, Mutex::new(Told::default()))
        })
        .collect();
    for (sidecar, [order, _], _) in &workers {
        applied(&sidecar.transition(&create(order, "open")).await);
    }
    let over = Mutex::new(false);
    let counts = || -> Vec<usize> {
        let count = |told: &Mutex<Told>| told.lock().unwrap().tokens.len();
        workers.iter().map(|(_, _, told)| count(told)).collect()
    };
    let go_on = async || {
        let before = counts();
        until("all go on", BACK_WITHIN, || async {
            let now = counts();
            let all = now
                .iter()
                .zip(&before)
                .all(|(now, then)| *now >= then + PROGRESS);
            all.then_some(())
        })
        .await;
    };
    let replacing = async {
        go_on().await;
        for program in newer {
            let expected = etcd::version(program).expect("it says which it is");
            for member in 0..MEMBERS {
                cluster.replace(member, program).await;
                let found = until("the new one answers", BACK_WITHIN, || async {
                    assert!(cluster.runs(member), "{}", cluster.logs(member));
                    cluster.versions(member).await
                });
                let (own, _) = found.await;
                assert_eq!(own, expected, "{}", cluster.logs(member));
                go_on().await;
            }
            // It is agreed on a while after the last one came, and the next version needs that.
            until("the cluster goes by it", BACK_WITHIN, || async {
                let (_, of_all) = cluster.versions(0).await?;
                (line(of_all) == line(expected)).then_some(())
            })
            .await;
            // What the version before wrote is in it: nobody is left who could write more of that.
            let saved = |member| cluster.logs(member).matches(SAVED).count();
            let before: Vec<usize> = (0..MEMBERS).map(saved).collect();
            until("each has saved a snapshot", BACK_WITHIN, || async {
                let all = (0..MEMBERS).all(|member| saved(member) > before[member]);
                all.then_some(())
            })
            .await;
        }
        *over.lock().unwrap() = true;
    };
    let working = workers
        .iter()
        .map(|(sidecar, resources, told)| works(sidecar, resources, told, &over));
    // Its holder believes in it without a break.
    let believing = async {
        let mut until = opened.plus(hold.ttl.as_duration());
        while !*over.lock().unwrap() {
            let news = tokio::time::timeout(until.left(), holding.next()).await;
            let news = news.expect("news before the belief has run out");
            match news.expect("it is held").news {
                HoldNews::Renewed(grant) => {
                    until = opened.plus(grant.safe_for);
                }
                HoldNews::Expiring(_) => {}
                HoldNews::Lost(decision) => panic!("the hold was lost: {decision:?}"),
            }
        }
    };
    tokio::join!(join_all(working.collect::<Vec<_>>()), replacing, believing);

    assert_eq!(sidecars[1].live(&kept).await, Some(hold.token));
    for (_, [order, _], told) in &workers {
        let told = told.lock().unwrap().done.clone();
        for sidecar in &sidecars {
            for (operation, result) in &told {
                let again = ask(order, operation).stay().result("another");
                replayed(&sidecar.transition(&again).await, &body(result));
            }
        }
    }
}
