//! Queues in random sequences: callers come to two sidecars for one resource or several, leave, run out of time, hold, renew and
//! release, while sidecars die, sessions end and replies are lost. Whatever happened, etcd's own history shows that each resource
//! had one holder at a time, that whoever waited was served in the order of places, and nobody waited for what was free.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use etcd_client::{EventType, GetOptions, WatchOptions};
use fencepost::domain::decision::{Grant, Verdict};
use fencepost::domain::ids::{Holder, ReservationId, ResourceId};
use fencepost::domain::request::{Reserve, Ttl};
use fencepost::domain::together::ReserveTogether;
use fencepost::domain::token::FencingToken;
use fencepost::engine::{Boottime, Fault, Reserved};
use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::queue::{LONG, LOOKED_WITHIN, PATIENT_CALL, nobody_waits, queued};
use super::queue_several::placed_whole_at_every_revision;
use crate::support::ask::{Ask, ask, fresh_resources, reserve, together};
use crate::support::backend::Backend;
use crate::support::engines;
use crate::support::fault::{Action, Ending, FaultPlan, Injected, Rpc};
use crate::support::seed::{Draw, seed};
use crate::support::sidecar::{Sidecar, caller_for};

/// Sequences, all at the same time: what takes long in them is to wait.
const SEQUENCES: u64 = 12;
const STEPS: usize = 40;
const RESOURCES: usize = 3;
/// Calls of one sequence that wait at once.
const WAITING_MAX: usize = 12;
/// Longer than a sequence takes, so that nobody loses what it holds.
const TTL: Duration = Duration::from_secs(300);
/// An answer that is due comes within this, also on a busy machine.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// How long the end of a sequence waits before it looks again for what nobody can tell it of.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Fewer grants to whoever had waited would say little, in all sequences.
const TURNS_MIN: usize = 40;

/// What a call asks for.
#[derive(Clone, Debug)]
enum Wish {
    One(Reserve),
    All(ReserveTogether),
    Move(Box<Ask>),
}

impl Wish {
    async fn put_to(&self, sidecar: &Sidecar, wait: Duration, dying: &AtomicBool) -> Answer {
        let (engine, caller) = (&sidecar.engine, caller_for(2 * LONG));
        let told = match self {
            Self::One(ask) => engine.reserve_or_wait(ask.clone(), wait, caller).await,
            Self::All(ask) => {
                let asked = engine.reserve_together_or_wait(ask.clone(), wait, caller);
                asked.await
            }
            Self::Move(ask) => {
                let told = engine.transition_or_wait(ask.build(), wait, caller).await;
                let grant = None;
                told.map(|decision| Reserved { decision, grant })
            }
        };
        match told {
            // The last question of a short wait may not be answered in time.
            Err(Fault::UnknownOutcome { .. }) if wait < LONG => Answer::Unknown,
            // It is about to hang up, and hears of nothing.
            Err(_) if dying.load(Ordering::Acquire) => Answer::Unknown,
            Err(fault) => panic!("{fault:?} to {self:?}"),
            Ok(Reserved { decision, grant }) => match decision.verdict {
                Verdict::Granted | Verdict::Applied => Answer::Done(grant),
                verdict => {
                    assert_eq!(verdict, Verdict::Busy, "{self:?}");
                    Answer::Busy
                }
            },
        }
    }

    fn resources(&self) -> Vec<ResourceId> {
        match self {
            Self::One(ask) => vec![ask.resource.clone()],
            Self::All(ask) => ask.together.all().to_vec(),
            Self::Move(ask) => vec![ask.0.resource.clone()],
        }
    }
}

/// Who holds what, as callers see it: from their answer until they begin to release.
#[derive(Debug, Default)]
struct Holders {
    now: BTreeMap<ResourceId, FencingToken>,
    last: BTreeMap<ResourceId, FencingToken>,
}

impl Holders {
    fn begin(&mut self, resources: &[ResourceId], token: FencingToken) {
        for resource in resources {
            let other = self.now.insert(resource.clone(), token);
            assert_eq!(
                other, None,
                "{resource} has two holders, the second by {token}"
            );
            let last = self.last.insert(resource.clone(), token);
            assert!(last < Some(token), "{token} after {last:?} of {resource}");
        }
    }

    fn end(&mut self, resources: &[ResourceId]) {
        for resource in resources {
            self.now.remove(resource);
        }
    }
}

#[derive(Debug)]
struct Held {
    id: ReservationId,
    resources: Vec<ResourceId>,
}

/// What a call was answered.
#[derive(Debug)]
enum Answer {
    Done(Option<Grant>),
    Busy,
    Unknown,
}

/// What became of a call.
#[derive(Debug)]
enum Told {
    Holds(Held),
    Nothing,
    /// Nobody knows whether it was granted.
    Unknown,
}

/// A call under way.
#[derive(Debug)]
struct Call {
    wish: Wish,
    at: usize,
    told: JoinHandle<Told>,
}

struct World {
    backend: Backend,
    sidecars: Vec<(Sidecar, FaultPlan)>,
    /// The names by which the callers of each sidecar go, and of those that are dead.
    names: Vec<String>,
    dead: Vec<String>,
    /// Whether each sidecar is cut off for good.
    dying: [Arc<AtomicBool>; 2],
    resources: [ResourceId; RESOURCES],
    draw: Draw,
    holders: Arc<Mutex<Holders>>,
    waiting: Vec<Call>,
    held: Vec<Held>,
    /// Asked by callers that have left: if it was granted all the same, nobody else ends it.
    abandoned: Vec<Wish>,
    late: Vec<(Injected, Action)>,
    /// Rung by each answer.
    answered: Arc<Notify>,
    moves: usize,
    steps: Vec<String>,
}

impl World {
    async fn begin(backend: Backend, seed: u64) -> Self {
        let mut world = Self {
            backend,
            sidecars: Vec::new(),
            names: Vec::new(),
            dead: Vec::new(),
            dying: Default::default(),
            resources: fresh_resources(),
            draw: Draw(seed),
            holders: Arc::default(),
            waiting: Vec::new(),
            held: Vec::new(),
            abandoned: Vec::new(),
            late: Vec::new(),
            answered: Arc::default(),
            moves: 0,
            steps: Vec::new(),
        };
        for _ in 0..2 {
            let (sidecar, name) = world.another().await;
            world.sidecars.push(sidecar);
            world.names.push(name);
        }
        world
    }

    async fn another(&self) -> ((Sidecar, FaultPlan), String) {
        let sidecar = self.backend.faulty_within(PATIENT_CALL).await;
        let number = self.names.len() + self.dead.len();
        // Its entries tell it, so that they are known when it is dead.
        let name = format!("[{} {number}]", self.resources[0].id());
        (sidecar, name)
    }

    fn wish(&mut self, at: usize, what: usize) -> Wish {
        let name = Holder::parse(&self.names[at]).unwrap();
        let (holder, ttl) = (Some(name), Ttl::parse(Some(TTL)).unwrap());
        match what {
            0 => {
                let mut set = self.resources.to_vec();
                if self.draw.below(3) > 0 {
                    set.remove(self.draw.below(RESOURCES));
                }
                let first = self.draw.below(set.len());
                set.rotate_left(first);
                Wish::All(ReserveTogether {
                    holder,
                    ttl,
                    ..together(&set)
                })
            }
            1 => {
                self.moves += 1;
                let resource = &self.resources[self.draw.below(RESOURCES)];
                let mut noted = ask(resource, &format!("note {}", self.moves));
                noted.0.sender = holder;
                Wish::Move(Box::new(noted))
            }
            _ => Wish::One(Reserve {
                holder,
                ttl,
                ..reserve(&self.resources[self.draw.below(RESOURCES)])
            }),
        }
    }

    fn arrives(&mut self, wish: Wish, at: usize, wait: Duration) {
        let (sidecar, dying) = (self.sidecars[at].0.clone(), Arc::clone(&self.dying[at]));
        let (holders, answered) = (Arc::clone(&self.holders), Arc::clone(&self.answered));
        let asked = wish.clone();
        let told = tokio::spawn(async move {
            let began = Boottime::now();
            let told = asked.put_to(&sidecar, wait, &dying).await;
            answered.notify_one();
            match told {
                Answer::Done(None) => Told::Nothing,
                Answer::Done(Some(grant)) => {
                    let resources = asked.resources();
                    holders.lock().unwrap().begin(&resources, grant.token);
                    let id = grant.id;
                    Told::Holds(Held { id, resources })
                }
                Answer::Busy => {
                    let took = Boottime::now().since(began);
                    let in_time = took >= wait && took < wait + ANSWERED_WITHIN;
                    assert!(in_time, "{took:?} for a wait of {wait:?}");
                    Told::Nothing
                }
                Answer::Unknown => Told::Unknown,
            }
        });
        self.waiting.push(Call { wish, at, told });
    }

    /// Takes up what was answered meanwhile.
    async fn collect(&mut self) -> usize {
        let done = self.waiting.extract_if(.., |call| call.told.is_finished());
        let done: Vec<Call> = done.collect();
        let answered = done.len();
        for call in done {
            self.ends(call).await;
        }
        answered
    }

    async fn ends(&mut self, call: Call) {
        match call.told.await {
            Ok(Told::Holds(held)) => self.held.push(held),
            Ok(Told::Nothing) => {}
            Ok(Told::Unknown) => self.abandoned.push(call.wish),
            Err(gone) => {
                assert!(gone.is_cancelled(), "{gone:?}");
                self.abandoned.push(call.wish);
            }
        }
    }

    /// A caller hangs up.
    async fn leaves(&mut self, call: Call) {
        call.told.abort();
        self.ends(call).await;
    }

    async fn release(&mut self, held: Held, at: usize) {
        self.holders.lock().unwrap().end(&held.resources);
        let ended = self.sidecars[at].0.release(&held.id).await;
        assert_eq!(ended.verdict, Verdict::Applied, "{ended:?}");
    }

    /// What was granted to callers that have left is given back, as the same request finds it.
    async fn give_back_what_nobody_knows_of(&mut self) {
        for wish in self.abandoned.clone() {
            let sidecar = self.sidecars[0].0.clone();
            let told = match &wish {
                Wish::One(ask) => sidecar.try_reserve(ask).await,
                Wish::All(ask) => sidecar.try_reserve_together(ask).await,
                Wish::Move(_) => continue,
            };
            if let Some(grant) = told.expect("it is judged").grant {
                let ended = sidecar.release(&grant.id).await;
                assert_eq!(ended.verdict, Verdict::Applied, "{ended:?}");
            }
        }
    }

    /// The leases of the sessions whose entries tell this name.
    async fn sessions(&self, names: &[String]) -> BTreeSet<i64> {
        let family = format!("{}w/", self.backend.prefix());
        let all = Some(GetOptions::new().with_prefix());
        let found = self.backend.raw().await.get(family, all).await.unwrap();
        let told = |value: &[u8]| {
            let text = String::from_utf8_lossy(value);
            names.iter().any(|name| text.contains(name))
        };
        let entries = found.kvs().iter().filter(|kv| told(kv.value()));
        entries.map(|kv| kv.lease()).collect()
    }

    /// What etcd does when nobody has kept them alive for long enough.
    async fn end_sessions(&self, names: &[String]) {
        for lease in self.sessions(names).await {
            // It may have ended meanwhile.
            drop(self.backend.raw().await.lease_revoke(lease).await);
        }
    }

    async fn dies(&mut self, at: usize) {
        let (sidecar, plan) = &self.sidecars[at];
        std::mem::take(&mut self.dying[at]).store(true, Ordering::Release);
        drop(plan.cut_all());
        let sidecar = sidecar.clone();
        let calls = self.waiting.extract_if(.., |call| call.at == at);
        for call in calls.collect::<Vec<_>>() {
            self.leaves(call).await;
        }
        let (next, name) = self.another().await;
        self.sidecars[at] = next;
        drop(sidecar);
        let dead = std::mem::replace(&mut self.names[at], name);
        self.end_sessions(std::slice::from_ref(&dead)).await;
        self.dead.push(dead);
    }

    async fn step(&mut self) {
        let at = self.draw.below(2);
        let what = self.draw.below(20);
        let full = self.waiting.len() >= WAITING_MAX;
        self.steps.push(format!("{what} at {at}"));
        match what {
            0..=7 if !full => {
                let wish = self.wish(at, what.saturating_sub(1));
                self.arrives(wish, at, LONG);
            }
            8..=9 if !full => {
                let wait = Duration::from_millis(self.draw.of(&[1, 60, 250]));
                let kind = self.draw.below(3);
                let wish = self.wish(at, kind);
                self.arrives(wish, at, wait);
            }
            // One that does not wait is told at once.
            10..=11 if !full => {
                let kind = self.draw.of(&[0, 2]);
                let wish = self.wish(at, kind);
                self.arrives(wish, at, Duration::ZERO);
            }
            12 if !self.waiting.is_empty() => {
                let which = self.draw.below(self.waiting.len());
                let call = self.waiting.swap_remove(which);
                self.leaves(call).await;
            }
            13 if !self.held.is_empty() => {
                let which = self.draw.below(self.held.len());
                let renewed = self.sidecars[at].0.renew(&self.held[which].id).await;
                assert_eq!(renewed.decision.verdict, Verdict::Granted, "{renewed:?}");
            }
            14 => {
                let live = self.names[at].clone();
                self.end_sessions(&[live]).await;
            }
            15 if self.draw.below(2) == 0 => self.dies(at).await,
            16 => {
                let action = self.draw.of(&[
                    Action::LoseReply(Ending::Reset),
                    Action::DeliverLate(Ending::Reset),
                    Action::SlowReply(Duration::from_millis(20)),
                ]);
                let entries = self.sidecars[at].1.when(Rpc::Txn).containing("ws/");
                self.late.push((entries.then(action), action));
            }
            _ if !self.held.is_empty() => {
                let which = self.draw.below(self.held.len());
                let held = self.held.swap_remove(which);
                self.release(held, at).await;
            }
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
        self.collect().await;
    }

    /// Whoever holds releases, and whoever waits is served, until nobody is left.
    async fn finish(&mut self) {
        for (late, action) in std::mem::take(&mut self.late) {
            late.lift();
            if late.hits() > 0 && matches!(action, Action::DeliverLate(_)) {
                late.deliver().await;
            }
        }
        let mut progress = Boottime::now();
        loop {
            let answered = self.collect().await;
            let mut released = 0;
            while let Some(held) = self.held.pop() {
                released += 1;
                self.release(held, released % 2).await;
            }
            if answered + released > 0 {
                progress = Boottime::now();
            }
            if self.waiting.is_empty() {
                break;
            }
            let idle = Boottime::now().since(progress);
            assert!(
                idle < LOOKED_WITHIN,
                "nothing is held for {idle:?}, and yet these wait: {:#?} after {:#?}",
                self.waiting,
                self.steps
            );
            self.give_back_what_nobody_knows_of().await;
            self.end_sessions(&self.dead).await;
            // What is answered is taken up above.
            let _ = tokio::time::timeout(LOOK_EVERY, self.answered.notified()).await;
        }
        self.give_back_what_nobody_knows_of().await;
        self.end_sessions(&self.dead).await;
        for resource in &self.resources {
            queued(&self.backend, resource, 0).await;
        }
        for (sidecar, _) in &self.sidecars {
            nobody_waits(sidecar).await;
        }
    }
}

/// Those who wait for a resource: when each was entered, and its key, which decides among those who were entered together.
type Line = BTreeSet<(i64, String)>;

/// Fails unless each resource was granted only while it was free, and to whoever came first of those who waited for it then.
/// Answers how many grants were made to whoever had waited.
async fn served_in_order_at_every_revision(backend: &Backend) -> usize {
    let prefix = backend.prefix();
    let mut raw = backend.raw().await;
    let end = format!("{prefix}~");
    raw.put(end.clone(), "the end", None).await.unwrap();
    let options = WatchOptions::new().with_prefix().with_start_revision(1);
    let mut news = raw.watch(prefix, Some(options)).await.unwrap();
    // By revision: what was put (true) or deleted, and when it was created.
    let mut history: BTreeMap<i64, Vec<(bool, String, i64)>> = BTreeMap::new();
    'all: loop {
        let told = news.message().await.unwrap().expect("the watch goes on");
        for event in told.events() {
            let entry = event.kv().unwrap();
            let key = entry.key_str().unwrap();
            if key == end {
                break 'all;
            }
            let put = event.event_type() == EventType::Put;
            let change = (put, key.to_owned(), entry.create_revision());
            history
                .entry(entry.mod_revision())
                .or_default()
                .push(change);
        }
    }
    let held_by = |key: &str| key.strip_prefix(&format!("{prefix}h/")).map(str::to_owned);
    let waits_for = |key: &str| {
        let (resource, _) = key.strip_prefix(&format!("{prefix}w/"))?.rsplit_once('/')?;
        Some(resource.to_owned())
    };
    let (mut held, mut lines) = (BTreeSet::new(), BTreeMap::<String, Line>::new());
    let mut turns = 0;
    for (revision, changes) in history {
        for (_, key, created) in changes.iter().filter(|(put, ..)| *put) {
            let Some(resource) = held_by(key) else {
                continue;
            };
            let free = *created == revision && !held.contains(&resource);
            assert!(free, "{resource} was granted at {revision}, and held");
            let gone = changes
                .iter()
                .filter(|(put, key, _)| !*put && waits_for(key).as_ref() == Some(&resource));
            let gone: Vec<&String> = gone.map(|(_, key, _)| key).collect();
            if let Some((_, first)) = lines.get(&resource).and_then(Line::first) {
                assert_eq!(gone, [first], "{resource} was granted at {revision}");
                turns += 1;
            }
        }
        for (put, key, created) in changes {
            if let Some(resource) = held_by(&key) {
                match put {
                    true => held.insert(resource),
                    false => held.remove(&resource),
                };
            } else if let Some(resource) = waits_for(&key) {
                let line = lines.entry(resource).or_default();
                match put {
                    true => assert!(line.insert((created, key))),
                    false => line.retain(|(_, other)| *other != key),
                }
            }
        }
    }
    assert!(held.is_empty(), "{held:?}");
    lines.retain(|_, line| !line.is_empty());
    assert_eq!(lines, BTreeMap::new());
    turns
}

async fn play(backend: Backend, seed: u64) {
    let mut world = World::begin(backend, seed).await;
    for _ in 0..STEPS {
        world.step().await;
    }
    world.finish().await;
}

async fn in_whatever_sequence_each_is_served_in_its_turn_and_nothing_is_left(backend: Backend) {
    let first = seed();
    let all = (0..SEQUENCES).map(|at| {
        let backend = backend.clone();
        tokio::spawn(play(backend, first.wrapping_add(at)))
    });
    for played in join_all(all).await {
        played.expect("see above");
    }
    let turns = served_in_order_at_every_revision(&backend).await;
    let waited = placed_whole_at_every_revision(&backend).await;
    println!("{}: {turns} turns of {waited} who waited", backend.name());
    assert!(turns >= TURNS_MIN, "only {turns} turns were taken");
}

engines! {
    in_whatever_sequence_each_is_served_in_its_turn_and_nothing_is_left,
}
