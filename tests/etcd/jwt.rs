//! Tokens that etcd signs and does not remember: they run out however much they are used, and each change of users or rights
//! makes all of them void. And users that come and go while sidecars run.
//!
//! Whoever shows them never looks at what signs them; that neither a secret nor a pair of keys makes a difference is shown all the
//! same, for the longer tokens of a pair are what most have.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fencepost::domain::decision::{Decision, Grant};
use fencepost::engine::{AtClose, Boottime, Fault, Following, HoldNews};
use fencepost::store::Endpoint;
use tonic::Code;

use super::users::{BACK_WITHIN, CALL_TIMEOUT, PREFIX, World};
use crate::support::ask::{ask, body, create, fresh_resource, reserve, reserve_for};
use crate::support::claim::{applied, replayed};
use crate::support::fault::{Action, FaultPlan, Rpc};
use crate::support::proxy::Proxy;
use crate::support::sidecar::{Sidecar, caller};
use crate::support::{bounded, until};

/// How long a token is good. They run out by whole seconds.
const TOKEN_TTL_SECONDS: u32 = 2;
/// The least that is in use.
const KEY_BITS: u32 = 2_048;
/// What etcd says to a token that it does not know.
const NO_TOKEN: &str = "etcdserver: invalid auth token";
/// Longer than any test.
const LONG_SECONDS: u32 = 3_600;
/// How many tokens must have run out under a test.
const TOKENS: usize = 3;

/// What etcd signs with.
#[derive(Clone, Copy, Debug)]
enum Signed {
    /// HS256.
    BySecret,
    /// RS256.
    ByKeyPair,
}

impl Signed {
    /// Makes what it takes, and tells etcd's words for it.
    fn made_in(self, directory: &Path) -> String {
        let private = directory.join("private");
        let (private_key, sign_method) = (private.display(), self.method());
        match self {
            Self::BySecret => {
                std::fs::write(&private, "0123456789abcdef0123456789abcdef").unwrap();
                format!("priv-key={private_key},sign-method={sign_method}")
            }
            Self::ByKeyPair => {
                let public = directory.join("public");
                let size = format!("rsa_keygen_bits:{KEY_BITS}");
                openssl(
                    &["genpkey", "-algorithm", "RSA", "-pkeyopt", &size],
                    &private,
                );
                let from = private.to_str().unwrap();
                openssl(&["pkey", "-pubout", "-in", from], &public);
                let public_key = public.display();
                format!("pub-key={public_key},priv-key={private_key},sign-method={sign_method}")
            }
        }
    }

    fn method(self) -> &'static str {
        match self {
            Self::BySecret => "HS256",
            Self::ByKeyPair => "RS256",
        }
    }

    /// An etcd that signs so.
    async fn world(self) -> World {
        let directory = tempfile::tempdir().unwrap();
        let keys = self.made_in(directory.path());
        let flag = format!("--auth-token=jwt,{keys},ttl={TOKEN_TTL_SECONDS}s");
        World::open(PREFIX, directory, &[&flag]).await
    }
}

/// The library that makes certificates here makes no keys of this kind.
fn openssl(arguments: &[&str], out: &Path) {
    let made = Command::new("openssl")
        .args(arguments)
        .arg("-out")
        .arg(out)
        .output()
        .expect("these tests need `openssl` in PATH: `make test` brings it");
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");
}

async fn shown(following: &mut Following) -> String {
    let next = tokio::time::timeout(BACK_WITHIN, following.next()).await;
    let shown = next.expect("it is told in time").expect("it goes on");
    assert!(!shown.gap, "states are missing: {shown:?}");
    shown.snapshot.state.unwrap().to_string()
}

/// Something of everything that goes on for long: a hold that is renewed, a watch.
struct Busy {
    one: Sidecar,
    plan: FaultPlan,
    hold: Grant,
    holding: tokio::task::JoinHandle<()>,
    following: Following,
    order: fencepost::domain::ids::ResourceId,
    moves: usize,
}

impl Busy {
    async fn at(world: &World, ttl_seconds: u32) -> Self {
        let (one, plan) = world.sidecar().await;
        let order = fresh_resource();
        applied(&one.transition(&create(&order, "s0")).await);
        let following = one.engine.follow(order.clone(), None, caller());
        let mut following = following.await.unwrap();
        assert_eq!(shown(&mut following).await, "s0");
        let hold = one.hold(&reserve_for(&fresh_resource(), ttl_seconds)).await;
        let opened = Boottime::now();
        let ids = vec![hold.id.clone()];
        let opening = one.engine.hold(ids, AtClose::Keep, caller());
        let mut news = opening.await.unwrap();
        let mut belief = opened.plus(hold.ttl.as_duration());
        let holding = tokio::spawn(async move {
            loop {
                let told = tokio::time::timeout(belief.left(), news.next()).await;
                let told = told.expect("news before the belief has run out").unwrap();
                match told.news {
                    HoldNews::Renewed(grant) => belief = opened.plus(grant.safe_for),
                    HoldNews::Expiring(_) => {}
                    HoldNews::Lost(decision) => panic!("{decision:?}"),
                }
            }
        });
        Self {
            one,
            plan,
            hold,
            holding,
            following,
            order,
            moves: 0,
        }
    }

    fn logins(&self) -> usize {
        self.plan.counts().of(Rpc::Other)
    }

    /// A move, which succeeds at once and is heard of.
    async fn goes_on(&mut self) {
        self.moves += 1;
        let to = format!("s{}", self.moves % 8);
        let moved = ask(&self.order, &format!("move-{}", self.moves)).to(&to);
        let told: Result<Decision, Fault> = self.one.try_transition(&moved).await;
        applied(&told.expect("nobody is turned away"));
        assert_eq!(shown(&mut self.following).await, to);
        assert!(!self.holding.is_finished(), "the hold has ended");
    }

    async fn still_holds(self) {
        let renewed = self.one.renew(&self.hold.id).await;
        assert!(renewed.grant.is_some(), "{renewed:?}");
        assert!(!self.holding.is_finished(), "the hold has ended");
        self.holding.abort();
    }
}

async fn run_out(signed: Signed) {
    let world = signed.world().await;
    world.enable().await;
    // The hold is renewed more often than a token lives.
    let mut busy = Busy::at(&world, 2 * TOKEN_TTL_SECONDS).await;
    let began = Boottime::now();
    let before = busy.logins();
    while busy.logins() < before + TOKENS {
        busy.goes_on().await;
    }
    let took = Boottime::now().since(began);
    // Each token but the last had run out; they live for a second less, as the clock goes.
    let least = Duration::from_secs(u64::from(TOKEN_TTL_SECONDS) - 1);
    let most = took.as_millis() / least.as_millis() + 1;
    let logins = busy.logins() - before;
    assert!(logins as u128 <= most, "{logins} logins in {took:?}");
    busy.still_holds().await;
}

// J7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signed_tokens_run_out_under_calls_holds_and_watches_and_nobody_is_turned_away() {
    bounded(Box::pin(run_out(Signed::BySecret))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_that_a_pair_of_keys_signs_run_out_and_nobody_is_turned_away_either() {
    bounded(Box::pin(run_out(Signed::ByKeyPair))).await;
}

async fn made_void(signed: Signed) {
    let world = signed.world().await;
    world.enable().await;
    let mut busy = Busy::at(&world, LONG_SECONDS).await;
    for nth in 0..3 {
        let before = busy.logins();
        let name = format!("somebody-{nth}");
        let mut root = world.fresh_root().await;
        root.user_add(name, "else", None).await.unwrap();
        busy.goes_on().await;
        assert!(busy.logins() > before);
        // Keepalives go over a stream that was opened under an older token.
        let renewed = busy.one.renew(&busy.hold.id).await;
        assert!(renewed.grant.is_some(), "{renewed:?}");
    }
    busy.still_holds().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_rights_makes_signed_tokens_void_and_costs_each_sidecar_a_login() {
    bounded(Box::pin(made_void(Signed::BySecret))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_rights_makes_tokens_that_a_pair_of_keys_signs_void_too() {
    bounded(Box::pin(made_void(Signed::ByKeyPair))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_are_opened_under_signed_tokens_of_older_rights_see_to_a_login() {
    bounded(Box::pin(async {
        let world = Signed::ByKeyPair.world().await;
        world.enable().await;
        let proxy = Proxy::to_url(world.etcd.url());
        let (one, plan) = world.sidecar_at(&proxy.url()).await;
        let (two, _) = world.sidecar().await;
        let order = fresh_resource();
        applied(&one.transition(&create(&order, "pending")).await);
        let held = one.hold(&reserve(&fresh_resource())).await;
        assert!(one.renew(&held.id).await.grant.is_some());
        let pay = ask(&order, "pay").from(&["pending"]).to("paid");
        let claim = two.hold(&pay.claim()).await;
        let before = plan.counts();
        let waiting = one.transition_waiting(&pay, Duration::from_secs(60));
        until("it follows", BACK_WITHIN, || async {
            (plan.counts().since(&before).of(Rpc::Watch) >= 2).then_some(())
        })
        .await;
        let mut root = world.fresh_root().await;
        root.user_add("somebody", "else", None).await.unwrap();
        proxy.cut();
        proxy.heal();
        applied(&two.complete(&claim.id, "receipt").await);
        let told = tokio::time::timeout(BACK_WITHIN, waiting).await;
        replayed(
            &told.expect("it is told").unwrap().unwrap(),
            &body("receipt"),
        );
        let renewed = one.renew(&held.id).await;
        assert!(renewed.grant.is_some(), "{renewed:?}");
    }))
    .await;
}

/// Users are asked for, and no more, and again, while there is traffic.
async fn come_and_go(world: &World) {
    // One that has no login, as if users were turned on by mistake.
    let endpoint = Endpoint::connect(world.etcd.url()).unwrap();
    let nobody = Sidecar::on(vec![endpoint], None, PREFIX, CALL_TIMEOUT).await;
    let mut busy = Busy::at(world, 2 * TOKEN_TTL_SECONDS).await;
    assert_eq!(busy.logins(), 0, "nobody asked for one");
    for _ in 0..2 {
        busy.goes_on().await;
        // A renewal may be the first that is refused, before the next move.
        let before = busy.logins();
        world.enable().await;
        for _ in 0..3 {
            busy.goes_on().await;
        }
        assert!(busy.logins() > before);
        let refused = nobody.try_transition(&create(&fresh_resource(), "a")).await;
        assert!(
            matches!(refused, Err(Fault::StoreDenied { .. })),
            "{refused:?}"
        );
        world.disable().await;
        for _ in 0..3 {
            busy.goes_on().await;
        }
        applied(&nobody.transition(&create(&fresh_resource(), "a")).await);
    }
    busy.still_holds().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_come_and_go_under_a_sidecar_that_has_a_login() {
    bounded(Box::pin(async {
        let directory = tempfile::tempdir().unwrap();
        let world = World::open(PREFIX, directory, &[]).await;
        come_and_go(&world).await;
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_with_signed_tokens_come_and_go_under_a_sidecar_that_has_a_login() {
    bounded(Box::pin(async {
        come_and_go(&Signed::BySecret.world().await).await
    }))
    .await;
}

/// Users may be turned off between a refusal and the login that follows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_that_nobody_asks_for_any_more_fails_no_call() {
    bounded(Box::pin(async {
        let directory = tempfile::tempdir().unwrap();
        let world = World::open(PREFIX, directory, &[]).await;
        let (one, plan) = world.sidecar().await;
        let resource = fresh_resource();
        applied(&one.transition(&create(&resource, "a")).await);
        let refused = plan
            .when(Rpc::Txn)
            .containing(resource.id())
            .then(Action::Refuse(Code::Unauthenticated, NO_TOKEN));
        applied(&one.transition(&ask(&resource, "move").to("b")).await);
        assert_eq!(refused.hits(), 1);
        assert_eq!(plan.counts().of(Rpc::Other), 1, "logins");
        // And when they are turned on again it logs in.
        world.enable().await;
        applied(&one.transition(&ask(&resource, "again").to("c")).await);
    }))
    .await;
}
