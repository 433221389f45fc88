//! Where the time of one Transition of one caller goes, in microseconds.
//!
//! What crosses a process or a disk is measured by the clock, in turn: the call over gRPC, the same call to an engine in this
//! process, and the engine's transaction alone. What only computes is repeated many times and its average taken. What is left over is
//! named for where it must be.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use fencepost::domain::decision::Verdict;
use fencepost::domain::digest::{Content as Read, Given};
use fencepost::domain::ids::{Kind, Nonce, OperationId, ResourceId, StateName};
use fencepost::domain::judge::{Answer, Ask, Fold, Judged, Standing};
use fencepost::domain::machine::DigestRule;
use fencepost::domain::outcome::StoredResult;
use fencepost::domain::request::{Intent, Interrupted, Move, Purpose, Transition};
use fencepost::domain::retention::{Keeping, StoreTime, When};
use fencepost::domain::token::{Revision, Timeline};
use fencepost::engine::{Boottime, Caller, Engine, EngineOptions};
use fencepost::proto::v1 as pb;
use fencepost::proto::v1::intent::Content;
use fencepost::store::{
    Commit, Endpoint, MachineGuard, MemberOutcome, Prefix, QueueGuard, ReservationGuard,
    ReservationWrite, Store, StoreOptions,
};
use prost::Message as _;

use crate::pair::Spread;
use crate::report::Line;
use crate::work::{self, MOVES, Walk};
use crate::{Bench, Outcome, ours, push};

const ROW: &str = "breakdown";
/// How often each is measured by the clock.
const TURNS: usize = 2_000;
const TURNS_QUICK: usize = 400;
/// How many of them come first and do not count.
const WARM_UP: usize = 100;
/// How often each computation is repeated.
const REPEATED: u32 = 20_000;
const PATIENCE: Duration = Duration::from_secs(10);
/// A round figure for what etcd makes of the wall clock; nothing here depends on it.
const UNIX_SECONDS: u64 = 1_700_000_000;

/// Medians of what was measured by the clock.
struct Clocked {
    call: f64,
    engine: f64,
    etcd: f64,
}

/// Averages of what only computes.
struct Computed {
    read: f64,
    decide: f64,
    prepare: f64,
    answer: f64,
}

pub(super) async fn run(bench: &Bench, lines: &mut Vec<Line>) -> Outcome<()> {
    let store = open(bench, "/breakdown/").await?;
    let computed = computed(&store, bench)?;
    let clocked = clocked(bench, store).await?;
    let inside = computed.decide + computed.prepare + clocked.etcd;
    let outside = computed.read + clocked.engine + computed.answer;
    let mut tell = |what: &str, micros: f64| {
        push(
            lines,
            Line::once(ROW, format!("one Transition: {what}"), "µs", micros, None),
        );
    };
    tell("the whole call, one caller, p50", clocked.call);
    tell("· transport: gRPC both ways, gate", clocked.call - outside);
    tell("· decode and convert", computed.read);
    tell("· in the engine, p50", clocked.engine);
    tell("· · decide", computed.decide);
    tell("· · encode and prepare", computed.prepare);
    tell("· · the etcd transaction, p50", clocked.etcd);
    tell(
        "· · lane, committer, tasks, wake-ups",
        clocked.engine - inside,
    );
    tell("· answer: encode and decode", computed.answer);
    Ok(())
}

async fn clocked(bench: &Bench, store: Store) -> Outcome<Clocked> {
    let turns = if bench.quick { TURNS_QUICK } else { TURNS };
    let mut client = bench.ours().await?.client(0);
    let engine = Engine::start(store.clone(), EngineOptions::default());
    let mut over_the_wire = Walk::new(&bench.fresh);
    let mut in_process = Walk::new(&bench.fresh);
    let mut straight = Chain::default();
    let mut figures = [const { Vec::new() }; 3];
    for turn in 0..turns + WARM_UP {
        let (resource, step) = over_the_wire.next();
        let request = ours::transition(resource, step);
        let begun = Instant::now();
        ours::judged(&mut client, request, pb::Verdict::Applied).await?;
        let call = begun.elapsed();

        let (resource, step) = in_process.next();
        let ask = read(ours::transition(resource, step))?;
        let begun = Instant::now();
        let arrived = Boottime::now();
        let caller = Caller {
            arrived,
            deadline: arrived.plus(PATIENCE),
        };
        let decision = engine.transition(ask, caller).await;
        let in_engine = begun.elapsed();
        let decision = decision.map_err(|fault| format!("the engine: {fault:?}"))?;
        if decision.verdict != Verdict::Applied {
            return Err(format!("not applied: {decision:?}").into());
        }

        let etcd = straight.step(&store, bench).await?;
        if turn >= WARM_UP {
            let turn = [call, in_engine, etcd];
            for (figures, took) in figures.iter_mut().zip(turn) {
                figures.push(took.as_secs_f64() * 1e6);
            }
        }
    }
    engine.stop(PATIENCE).await;
    let [call, engine, etcd] = figures.map(|figures| Spread::of(figures).median());
    Ok(Clocked { call, engine, etcd })
}

/// The engine's own transactions, without the engine: folds of the walk, each committed alone.
#[derive(Default)]
struct Chain {
    at: usize,
    resource: String,
    standing: Standing,
}

impl Chain {
    async fn step(&mut self, store: &Store, bench: &Bench) -> Outcome<Duration> {
        if self.at == 0 {
            self.resource = bench.fresh.next();
            self.standing = Standing::absent();
        }
        let ask = read(ours::transition(&self.resource, MOVES[self.at]))?;
        let commit = decide(&self.standing, store.timeline(), ask)?;
        let record = commit.record.clone().ok_or("a move without a record")?;
        let prepared = [store.prepare(&commit)];
        let begun = Instant::now();
        let outcome = store.commit(&prepared).await?;
        let took = begun.elapsed();
        match outcome.members.as_slice() {
            [Ok(MemberOutcome::Committed { .. })] => {}
            other => return Err(format!("not committed: {other:?}").into()),
        }
        self.standing = Standing::seen(Some((record, outcome.revision)), None)?;
        self.at = (self.at + 1) % MOVES.len();
        Ok(took)
    }
}

fn computed(store: &Store, bench: &Bench) -> Outcome<Computed> {
    let resource = bench.fresh.next();
    let timeline = Timeline::first(Nonce::from_bytes([7; 16]), UNIX_SECONDS);
    // The second move: a record with one finished operation, as most calls find it.
    let create = read(ours::transition(&resource, MOVES[0]))?;
    let created = decide(&Standing::absent(), timeline, create)?;
    let record = created.record.ok_or("a move without a record")?;
    let revision = Revision::from_etcd(1_000).ok_or("a revision")?;
    let standing = Standing::seen(Some((record, revision)), None)?;

    let request = ours::transition(&resource, MOVES[1]);
    let wire = request.encode_to_vec();
    let ask = read(request)?;
    let commit = decide(&standing, timeline, ask.clone())?;
    let answer = pb::TransitionResponse {
        decision: Some(sample_decision(&resource)),
    };
    let asks = Ask::Transition(Box::new(ask), Nonce::from_bytes([9; 16]));
    let resource_id = resource_of(&resource)?;
    Ok(Computed {
        read: average(|| {
            let request = pb::TransitionRequest::decode(black_box(&wire[..]));
            request.map(|request| read(request).is_ok())
        }),
        decide: average(|| {
            let mut fold = Fold::begin(&resource_id, black_box(&standing), timeline, now());
            let judged = fold.judge(&asks);
            (judged, fold.into_write())
        }),
        prepare: average(|| store.prepare(black_box(&commit))),
        answer: average(|| {
            let wire = black_box(&answer).encode_to_vec();
            pb::TransitionResponse::decode(&wire[..])
        }),
    })
}

/// One judgement, as the commit that a lane makes of it.
fn decide(standing: &Standing, timeline: Timeline, ask: Transition) -> Outcome<Commit> {
    let resource = ask.resource.clone();
    let nonce = Nonce::from_bytes(*uuid::Uuid::new_v4().as_bytes());
    let ask = Ask::Transition(Box::new(ask), nonce);
    let mut fold = Fold::begin(&resource, standing, timeline, now());
    let Judged::Answered(draft) = fold.judge(&ask) else {
        return Err("a lone move was not answered".into());
    };
    let Answer::Judged(decision) = draft.finish(Revision::from_etcd(1)) else {
        return Err("a move was answered by something else than a decision".into());
    };
    if decision.verdict != Verdict::Applied {
        return Err(format!("not applied: {decision:?}").into());
    }
    let write = fold.into_write().ok_or("a move wrote nothing")?;
    Ok(Commit {
        resource,
        seen: standing.revision(),
        reservation: ReservationGuard::Absent,
        machine: MachineGuard::Absent,
        // A move takes nothing, so whoever waits does not matter to it.
        queue: QueueGuard::None,
        leaves: None,
        absent_operations: Vec::new(),
        record: write.record,
        reservation_write: ReservationWrite::Keep,
        operations: write.operations,
        incidents: write.incidents,
        gone: write.gone,
    })
}

/// When it is decided; which moment that is costs nothing.
fn now() -> When {
    When {
        lag: Duration::ZERO,
        wall_ms: 1,
        now: StoreTime::from_seconds(1),
        keeping: Keeping::default(),
    }
}

/// What the sidecar's own reader does with a request of this sort: the same checks, name by name.
fn read(request: pb::TransitionRequest) -> Outcome<Transition> {
    let resource = request.resource.ok_or("no resource")?;
    let intent = request.intent.ok_or("no intent")?;
    let Some(Content::Json(content)) = &intent.content else {
        return Err("the content is JSON here".into());
    };
    let state = |name: &str| StateName::parse(name);
    let some_state = |name: &str| match name {
        "" => Ok(None),
        name => state(name).map(Some),
    };
    let content = Read::read(Given::Json(content), &DigestRule::Whole)?;
    let movement = intent.r#move.ok_or("no move")?;
    let result = request.result.ok_or("no result")?;
    Ok(Transition {
        resource: ResourceId::new(Kind::parse(&resource.kind)?, &resource.id)?,
        intent: Intent {
            operation: OperationId::parse(&intent.operation_id)?,
            event: None,
            identity: BTreeMap::new(),
            digest: content.digest,
            beside: content.beside,
            from: intent
                .from_states
                .iter()
                .map(|name| state(name))
                .collect::<Result<_, _>>()?,
            movement: Some(Move {
                to: some_state(&movement.to_state)?,
                initial: some_state(&movement.initial_state)?,
                sets: BTreeMap::new(),
            }),
            made_ms: None,
            interrupted: Interrupted::Ask,
        },
        afterwards: None,
        outcome: None,
        reservation: None,
        result: Some(
            StoredResult {
                body: result.body,
                code: u32::try_from(result.code)?,
                content_type: result.content_type,
                headers: Vec::new(),
            }
            .checked()?,
        ),
        sender: None,
        purpose: Purpose::Commit,
    })
}

/// An answer of the usual size.
fn sample_decision(resource: &str) -> pb::Decision {
    pb::Decision {
        advice: pb::Advice::Acknowledge.into(),
        verdict: pb::Verdict::Applied.into(),
        rule: "APPLIED".to_owned(),
        explanation: "pay was applied; order is now in paid".to_owned(),
        result: Some(pb::Result {
            sha256: Vec::new().into(),
            body: work::result(resource, "pay").into_bytes().into(),
            code: 200,
            ..pb::Result::default()
        }),
        now: Some(pb::Snapshot {
            state: "paid".to_owned(),
            revision: 1_000,
            ..pb::Snapshot::default()
        }),
        ..pb::Decision::default()
    }
}

/// In microseconds.
fn average<T>(mut compute: impl FnMut() -> T) -> f64 {
    let mut all = || {
        let begun = Instant::now();
        for _ in 0..REPEATED {
            black_box(compute());
        }
        begun.elapsed()
    };
    // The first time warms the caches.
    all();
    all().as_secs_f64() * 1e6 / f64::from(REPEATED)
}

fn resource_of(id: &str) -> Outcome<ResourceId> {
    Ok(ResourceId::new(Kind::parse("order")?, id)?)
}

async fn open(bench: &Bench, prefix: &str) -> Outcome<Store> {
    let options = StoreOptions {
        prefix: Prefix::parse(prefix)?,
        call_timeout: PATIENCE,
    };
    let first = Timeline::first(Nonce::from_bytes([1; 16]), UNIX_SECONDS);
    Ok(Store::open(vec![Endpoint::connect(&bench.etcd.url)?], options, first).await?)
}
