//! etcd with users: one login for all, again when it is needed, and rights that are missing.

use std::path::PathBuf;
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, GetOptions, Permission};
use fencepost::domain::decision::Verdict;
use fencepost::domain::ids::ResourceId;
use fencepost::engine::Fault;
use fencepost::store::{Endpoint, Login};
use futures_util::future::join_all;
use tempfile::TempDir;

use crate::support::ask::{ask, body, create, fresh_resource, reserve, reserve_for};
use crate::support::backend::connection;
use crate::support::claim::{applied, replayed};
use crate::support::etcd::Etcd;
use crate::support::fault::{FaultPlan, FaultyLink, Rpc};
use crate::support::process::Process;
use crate::support::proxy::Proxy;
use crate::support::sidecar::{Sidecar, caller_for};
use crate::support::{bounded, until};

pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(5);
pub(super) const PREFIX: &str = "/fencepost/";
const USER: &str = "fencepost";
const FIRST: &str = "swordfish-1";
pub(super) const BACK_WITHIN: Duration = Duration::from_secs(30);
/// How long etcd remembers a token that nobody shows.
const TOKEN_TTL_SECONDS: u64 = 1;

/// An etcd that lets in only those it knows.
pub(super) struct World {
    pub(super) etcd: Etcd,
    root: Client,
    directory: TempDir,
}

impl World {
    /// With one user of Fencepost, who may read and write what begins so.
    async fn new(permitted: &str) -> Self {
        let ttl = format!("--auth-token-ttl={TOKEN_TTL_SECONDS}");
        let directory = tempfile::tempdir().unwrap();
        // Boxed, for a test that has it inside would be large.
        let world = Box::pin(Self::open(permitted, directory, &[&ttl])).await;
        let mut raw = world.root.clone();
        raw.auth_enable().await.unwrap();
        Self {
            root: Box::pin(world.fresh_root()).await,
            ..world
        }
    }

    /// The same, with users whom nobody is asked for yet.
    pub(super) async fn open(permitted: &str, directory: TempDir, flags: &[&str]) -> Self {
        let etcd = Etcd::start_with(false, &[&["--bcrypt-cost=4"], flags].concat()).await;
        let mut raw = Client::from_channel(connection(etcd.url()), None)
            .await
            .unwrap();
        // An etcd may have it already.
        let _ = raw.role_add("root").await;
        raw.user_add("root", "root", None).await.unwrap();
        raw.user_grant_role("root", "root").await.unwrap();
        raw.role_add(USER).await.unwrap();
        let all = Permission::read_write(permitted).with_prefix();
        raw.role_grant_permission(USER, all).await.unwrap();
        raw.user_add(USER, FIRST, None).await.unwrap();
        raw.user_grant_role(USER, USER).await.unwrap();
        let world = Self {
            root: raw,
            etcd,
            directory,
        };
        world.write_password(FIRST);
        world
    }

    /// From now on etcd asks who it is.
    pub(super) async fn enable(&self) {
        let mut raw = Client::from_channel(connection(self.etcd.url()), None)
            .await
            .unwrap();
        raw.auth_enable().await.unwrap();
    }

    /// From now on it does not.
    pub(super) async fn disable(&self) {
        self.fresh_root().await.auth_disable().await.unwrap();
    }

    /// Logged in just now.
    pub(super) async fn fresh_root(&self) -> Client {
        let as_root = ConnectOptions::new()
            .with_user("root", "root")
            .with_auto_token_refresh(true);
        let root = Client::from_channel(connection(self.etcd.url()), Some(as_root));
        root.await.unwrap()
    }

    fn password_file(&self) -> PathBuf {
        self.directory.path().join("password")
    }

    fn write_password(&self, password: &str) {
        // As editors do.
        std::fs::write(self.password_file(), format!("{password}\n")).unwrap();
    }

    fn login(&self) -> Login {
        Login {
            user: USER.to_owned(),
            password_file: self.password_file(),
        }
    }

    /// All tokens of the user are void from now on.
    async fn change_password(&self, password: &str) {
        let mut root = self.root.clone();
        root.user_change_password(USER, password).await.unwrap();
    }

    pub(super) async fn sidecar_at(&self, url: &str) -> (Sidecar, FaultPlan) {
        let (channel, plan) = FaultyLink::wrap(connection(url));
        let endpoint = Endpoint {
            name: url.to_owned(),
            channel,
        };
        let login = Some(self.login());
        let sidecar = Sidecar::on(vec![endpoint], login, PREFIX, CALL_TIMEOUT).await;
        (sidecar, plan)
    }

    pub(super) async fn sidecar(&self) -> (Sidecar, FaultPlan) {
        self.sidecar_at(self.etcd.url()).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_void_is_replaced_by_one_login_for_all_callers() {
    bounded(Box::pin(async {
        let world = World::new(PREFIX).await;
        let (one, plan) = world.sidecar().await;
        let held = one.hold(&reserve(&fresh_resource())).await;
        for _ in 0..2 {
            world.change_password(FIRST).await;
            let before = plan.counts();
            let resources: Vec<_> = (0..50).map(|_| fresh_resource()).collect();
            let asks: Vec<_> = resources.iter().map(|id| create(id, "pending")).collect();
            // Each TTL needs a lease of its own, and so a request.
            let reserves = (100..120).map(|seconds| reserve_for(&fresh_resource(), seconds));
            let reserves: Vec<_> = reserves.collect();
            let (moved, reserved) = tokio::join!(
                join_all(asks.iter().map(|ask| one.transition(ask))),
                join_all(reserves.iter().map(|ask| one.hold(ask))),
            );
            assert_eq!((moved.len(), reserved.len()), (50, 20));
            for answer in moved {
                applied(&answer);
            }
            // Keepalives go over a stream that was opened under the old token.
            assert!(one.renew(&held.id).await.grant.is_some());
            assert_eq!(plan.counts().since(&before).of(Rpc::Other), 1, "logins");
        }
    }))
    .await;
}

// J7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_ran_out_and_rights_that_moved_disturb_nobody() {
    bounded(Box::pin(async {
        let mut world = World::new(PREFIX).await;
        let (one, plan) = world.sidecar().await;
        let resource = fresh_resource();
        applied(&one.transition(&create(&resource, "pending")).await);
        // The pool of leases is looked after for ten seconds, which keeps a token young.
        until("the sidecar is idle", BACK_WITHIN, || async {
            tokio::time::sleep(Duration::from_secs(2 * TOKEN_TTL_SECONDS)).await;
            let quiet = plan.counts();
            tokio::time::sleep(Duration::from_secs(2 * TOKEN_TTL_SECONDS)).await;
            (plan.counts() == quiet).then_some(())
        })
        .await;
        let kept = plan.counts();
        applied(&one.transition(&ask(&resource, "pay").to("paid")).await);
        assert_eq!(plan.counts().since(&kept).of(Rpc::Other), 1, "logins");

        world.root.user_add("somebody", "else", None).await.unwrap();
        applied(&one.transition(&ask(&resource, "ship").to("shipped")).await);
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_is_opened_under_a_void_token_sees_to_a_login_by_itself() {
    bounded(Box::pin(async {
        let world = World::new(PREFIX).await;
        let proxy = Proxy::to_url(world.etcd.url());
        let (one, plan) = world.sidecar_at(&proxy.url()).await;
        let resource = fresh_resource();
        applied(&one.transition(&create(&resource, "pending")).await);
        until("it follows the machines", BACK_WITHIN, || async {
            (plan.counts().of(Rpc::Watch) > 0).then_some(())
        })
        .await;
        world.change_password(FIRST).await;
        let before = plan.counts();
        proxy.cut();
        proxy.heal();
        // Nobody calls. The watch is refused; it asks a question, which logs in; then it is opened once more.
        let since = || plan.counts().since(&before);
        until("it logs in", BACK_WITHIN, || async {
            (since().of(Rpc::Other) > 0).then_some(())
        })
        .await;
        let refused = since().of(Rpc::Watch);
        until("it is opened once more", BACK_WITHIN, || async {
            (since().of(Rpc::Watch) > refused).then_some(())
        })
        .await;
        assert_eq!(since().of(Rpc::Other), 1, "logins");
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_is_answered_although_its_token_became_void() {
    bounded(Box::pin(async {
        let world = World::new(PREFIX).await;
        let ((one, plan), (two, _)) = (world.sidecar().await, world.sidecar().await);
        let resource = fresh_resource();
        applied(&one.transition(&create(&resource, "pending")).await);
        let pay = ask(&resource, "pay").from(&["pending"]).to("paid");
        let claim = two.hold(&pay.claim()).await;
        let before = plan.counts();
        let waiting = one.transition_waiting(&pay, Duration::from_secs(60));
        until("it follows", BACK_WITHIN, || async {
            (plan.counts().since(&before).of(Rpc::Watch) >= 2).then_some(())
        })
        .await;
        world.change_password(FIRST).await;
        applied(&two.complete(&claim.id, "receipt").await);
        let told = waiting.await.unwrap().unwrap();
        replayed(&told, &body("receipt"));
    }))
    .await;
}

/// What is queued for a resource, or holds it.
async fn keys(world: &World, family: &str, resource: &ResourceId) -> usize {
    let all = Some(GetOptions::new().with_prefix().with_count_only());
    let prefix = format!("{PREFIX}{family}/order/{}", resource.id());
    let mut root = world.root.clone();
    let found = root.get(prefix, all).await.unwrap().count();
    usize::try_from(found).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_busy_resource_waits_on_while_the_password_is_wrong() {
    bounded(Box::pin(async {
        let world = World::new(PREFIX).await;
        let ((one, plan), (two, _)) = (world.sidecar().await, world.sidecar().await);
        for is_mended in [true, false] {
            let resource = fresh_resource();
            let wish = reserve(&resource);
            until("it is held", BACK_WITHIN, || async {
                two.try_reserve(&wish).await.ok()?.grant
            })
            .await;
            let wait = Duration::from_secs(if is_mended { 60 } else { 6 });
            let engine = one.engine.clone();
            let asked = reserve(&resource);
            let caller = caller_for(wait + CALL_TIMEOUT);
            let waits = tokio::spawn(async move {
                let told = engine.reserve_or_wait(asked, wait, caller).await;
                (told, caller.deadline.left())
            });
            until("it is queued", BACK_WITHIN, || async {
                (keys(&world, "w", &resource).await == 1).then_some(())
            })
            .await;
            let password = if is_mended { "second" } else { "third" };
            world.change_password(password).await;
            // It becomes free, which the watch tells; nobody may ask about it.
            let before = plan.counts();
            let mut root = world.root.clone();
            let held = format!("{PREFIX}h/order/{}", resource.id());
            let gone = root.delete(held, None).await.unwrap();
            assert_eq!(gone.deleted(), 1);
            until("it has asked in vain", BACK_WITHIN, || async {
                (plan.counts().since(&before).all() >= 4).then_some(())
            })
            .await;
            let told = if is_mended {
                assert!(!waits.is_finished());
                world.write_password(password);
                waits.await.unwrap()
            } else {
                let told = waits.await.unwrap();
                world.write_password(password);
                told
            };
            let (told, left) = told;
            let verdict = told.expect("a decision").decision.verdict;
            let expected = if is_mended {
                Verdict::Granted
            } else {
                Verdict::Busy
            };
            assert_eq!(verdict, expected);
            assert!(left > Duration::ZERO, "it came after the deadline");
            let live = keys(&world, "h", &resource).await;
            assert_eq!(live, usize::from(is_mended));
        }
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_may_change_first_in_the_file_or_first_in_etcd() {
    bounded(Box::pin(async {
        let world = World::new(PREFIX).await;
        let (one, plan) = world.sidecar().await;
        let resource = fresh_resource();
        applied(&one.transition(&create(&resource, "pending")).await);

        // In the file first: until etcd knows it, the old one still opens the door.
        world.write_password("swordfish-2");
        world.change_password(FIRST).await;
        applied(&one.transition(&ask(&resource, "pay").to("paid")).await);
        world.change_password("swordfish-2").await;
        applied(&one.transition(&ask(&resource, "pack").to("packed")).await);

        // In etcd first: nothing works until the file follows, and that is told.
        world.change_password("swordfish-3").await;
        let before = plan.counts();
        for _ in 0..20 {
            let refused = one
                .try_transition(&ask(&resource, "ship").to("shipped"))
                .await;
            assert!(
                matches!(refused, Err(Fault::StoreDenied { .. })),
                "{refused:?}"
            );
        }
        // A wrong password is not tried for each caller.
        let logins = plan.counts().since(&before).of(Rpc::Other);
        assert!(logins <= 10, "{logins} logins");
        world.write_password("swordfish-3");
        let ship = ask(&resource, "ship").to("shipped");
        until("the new password is taken", BACK_WITHIN, || async {
            one.try_transition(&ship).await.ok()
        })
        .await;
        assert_eq!(one.state(&resource).await, "shipped");
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_logs_in_and_never_says_the_password() {
    bounded(Box::pin(async {
        let world = World::new(PREFIX).await;
        let file = world.password_file().display().to_string();
        let settings = [
            "--etcd-user",
            USER,
            "--etcd-password-file",
            &file,
            "--log-level",
            "trace",
        ];
        let sidecar = Process::serve(world.etcd.url(), PREFIX, &settings).await;
        let request = fencepost::proto::v1::InspectRequest {
            resource: Some(fencepost::proto::v1::Resource {
                kind: "order".into(),
                id: "1".into(),
            }),
            ..Default::default()
        };
        sidecar.client().inspect(request).await.unwrap();
        let logs = sidecar.logs();
        assert!(logs.contains("logged in to etcd"), "{logs}");
        assert!(
            logs.contains("the password goes to etcd unencrypted"),
            "{logs}"
        );
        assert!(!logs.contains(FIRST), "the log shows the password");

        // A start with a wrong one ends at once, and says what to do.
        world.write_password("guess-of-mine");
        let (code, told) = super::settings::refused(world.etcd.url(), &settings).await;
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains("authentication failed"), "{told}");
        assert!(
            told.contains(&file) && !told.contains("guess-of-mine"),
            "{told}"
        );
        let (code, told) = super::settings::refused(world.etcd.url(), &[]).await;
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains("--etcd-user"), "{told}");
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_right_is_told_with_the_prefix_and_the_command_that_grants_it() {
    bounded(Box::pin(async {
        let mut world = World::new("/elsewhere/").await;
        let file = world.password_file().display().to_string();
        let settings = ["--etcd-user", USER, "--etcd-password-file", &file];
        let (code, told) = super::settings::refused(world.etcd.url(), &settings).await;
        assert_eq!(code, Some(1), "{told}");
        let command = "etcdctl role grant-permission ROLE --prefix=true readwrite /fencepost/";
        assert!(
            told.contains(command) && told.contains("permission denied"),
            "{told}"
        );

        let all = Permission::read_write(PREFIX).with_prefix();
        world.root.role_grant_permission(USER, all).await.unwrap();
        let (one, _) = world.sidecar().await;
        let resource = fresh_resource();
        applied(&one.transition(&create(&resource, "pending")).await);
        let grant = one.hold(&reserve(&resource)).await;
        let mut root = world.root.clone();
        root.user_revoke_role(USER, USER).await.unwrap();
        let refused = one
            .try_transition(&ask(&resource, "pay").to("paid").under(&grant.id))
            .await;
        assert!(
            matches!(refused, Err(Fault::StoreDenied { .. })),
            "{refused:?}"
        );
        root.user_grant_role(USER, USER).await.unwrap();
        applied(
            &one.transition(&ask(&resource, "pay").to("paid").under(&grant.id))
                .await,
        );
        one.release(&grant.id).await;
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_file_that_does_not_answer_holds_up_neither_calls_nor_the_end() {
    bounded(Box::pin(async {
        let world = World::new(PREFIX).await;
        let file = world.password_file();
        let shown = file.display().to_string();
        let settings = [
            "--etcd-user",
            USER,
            "--etcd-password-file",
            &shown,
            "--etcd-timeout",
            "1s",
        ];
        let sidecar = Process::serve(world.etcd.url(), PREFIX, &settings).await;
        // Whoever opens it waits until somebody writes into it, which nobody does.
        std::fs::remove_file(&file).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&file).status();
        assert!(made.unwrap().success());
        world.change_password(FIRST).await;
        let request = fencepost::proto::v1::InspectRequest {
            resource: Some(fencepost::proto::v1::Resource {
                kind: "order".into(),
                id: "1".into(),
            }),
            ..Default::default()
        };
        // The password that was taken last is still right.
        let mut client = sidecar.client();
        let answered = tokio::time::timeout(BACK_WITHIN, client.inspect(request));
        answered.await.expect("in time").expect("with the old one");
        let code = sidecar.terminate().await;
        assert_eq!(code, 0);
    }))
    .await;
}
