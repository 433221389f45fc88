//! Machines and claims together, in random sequences at two sidecars between which and the store replies are lost, slow, or come
//! late: whatever happened, each operation was done at most once, by the answer that said so, and stays as it was.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use fencepost::domain::claim::Finding;
use fencepost::domain::decision::{Decision, Verdict};
use fencepost::domain::ids::ReservationId;
use fencepost::domain::ids::ResourceId;
use fencepost::domain::request::Ride;
use fencepost::engine::{Fault, OperationState};
use futures_util::StreamExt as _;

use super::laws::{By, cancel, mail, pay, ship};
use crate::support::ask::{Ask, fresh_request, reserve, resolution};
use crate::support::backend::Backend;
use crate::support::engines;
use crate::support::fault::{Action, Ending, FaultPlan, Injected, Rpc};
use crate::support::seed::{Draw, seed};
use crate::support::sidecar::Sidecar;

const SEQUENCES: u64 = 30;
const STEPS: usize = 14;
/// Sequences at the same time.
const AT_ONCE: usize = 5;
const OPERATIONS: [&str; 4] = ["pay", "cancel", "ship", "mail"];

struct World {
    sidecars: [(Sidecar, FaultPlan); 2],
    order: ResourceId,
    draw: Draw,
    rounds: Vec<ReservationId>,
    late: Vec<Injected>,
    /// Results of which it was told that they were stored now, and those that were told of later.
    applied: Vec<Bytes>,
    replayed: Vec<Bytes>,
    steps: Vec<String>,
}

fn message(order: &ResourceId, name: &str) -> Ask {
    match name {
        "pay" => pay(order),
        "cancel" => cancel(order),
        "ship" => ship(order),
        _ => mail(order),
    }
}

impl World {
    async fn begin(backend: &Backend, seed: u64) -> Self {
        let by = if seed.is_multiple_of(3) {
            By::Requests
        } else {
            By::Machine
        };
        let sidecars = [backend.faulty().await, backend.faulty().await];
        let order = by.pending(&sidecars[0].0).await;
        Self {
            sidecars,
            order,
            draw: Draw(seed),
            rounds: Vec::new(),
            late: Vec::new(),
            applied: Vec::new(),
            replayed: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// What goes wrong on the way of the next commit.
    fn fault(&mut self, at: usize) -> Option<(Injected, Action)> {
        let action = self.draw.of(&[
            None,
            None,
            Some(Action::LoseReply(Ending::Reset)),
            Some(Action::LoseReply(Ending::Silence)),
            Some(Action::DeliverLate(Ending::Reset)),
            Some(Action::Lose),
            Some(Action::SlowReply(Duration::from_millis(50))),
        ])?;
        let when = self.sidecars[at].1.when(Rpc::Txn);
        Some((when.containing(self.order.id()).then(action), action))
    }

    fn told(&mut self, answer: Result<Decision, Fault>, body: Option<&str>) {
        let decision = match answer {
            Ok(decision) => decision,
            // A round that claimed nothing has nothing to complete.
            Err(Fault::UnknownOutcome { .. } | Fault::InvalidField { .. }) => return,
            Err(fault) => panic!("{fault:?} after {:#?}", self.steps),
        };
        self.steps
            .push(format!("  {:?} {:?}", decision.verdict, decision.rule));
        match (decision.verdict, body) {
            (Verdict::Applied, Some(body)) => self.applied.push(Bytes::from(body.to_owned())),
            (Verdict::Replayed, Some(_)) => self.replayed.push(decision.result.unwrap().body),
            _ => {}
        }
    }

    async fn step(&mut self, number: usize) {
        let at = self.draw.below(2);
        let sidecar = self.sidecars[at].0.clone();
        let name = self.draw.of(&OPERATIONS);
        let asked = message(&self.order, name);
        let body = format!("result {number} of {name}");
        let round = match self.rounds.len() {
            0 => None,
            many => Some(self.rounds[self.draw.below(many)].clone()),
        };
        let what = self.draw.below(10);
        let fault = self.fault(at);
        self.steps.push(format!("{what} {name} at {at}, {fault:?}"));
        match (what, round) {
            (0..=1, _) | (2, None) => {
                let answer = sidecar.try_transition(&asked.result(&body)).await;
                self.told(answer, Some(&body));
            }
            (3..=4, _) | (5..=6, None) => {
                let answer = sidecar.try_reserve(&asked.claim()).await;
                self.reserved(answer);
            }
            (7..=9, None) => {
                let answer = sidecar.try_reserve(&reserve(&self.order)).await;
                self.reserved(answer);
            }
            (2, Some(reservation)) => {
                let ride = Ride {
                    reservation,
                    request: fresh_request(),
                    intent: asked.build().intent,
                };
                let answer = sidecar.try_ride(&ride).await;
                self.told(answer.map(|told| told.decision), None);
            }
            (5..=6, Some(round)) => {
                let answer = sidecar.try_complete(&round, &body).await;
                self.told(answer, Some(&body));
            }
            (7, Some(round)) => {
                let answer = sidecar.try_give_back(&round).await;
                self.told(answer, None);
            }
            (8, Some(round)) => {
                let answer = sidecar.try_release(&round).await;
                self.told(answer, None);
            }
            _ => {
                let found = self
                    .draw
                    .of(&[Finding::Done, Finding::NotDone, Finding::Refused]);
                let ask = resolution(&self.order, name, found, &body);
                let answer = sidecar.try_resolve(&ask).await;
                let done = (found == Finding::Done).then_some(body.as_str());
                // A repetition of what a person found out is no second result.
                let first = matches!(&answer, Ok(told) if told.verdict == Verdict::Applied);
                self.told(answer, done.filter(|_| first));
            }
        }
        if let Some((injected, action)) = fault {
            injected.lift();
            if matches!(action, Action::DeliverLate(_)) && injected.hits() > 0 {
                self.late.push(injected);
            }
        }
        if !self.late.is_empty() && self.draw.below(3) == 0 {
            let at = self.draw.below(self.late.len());
            self.late.swap_remove(at).deliver().await;
            self.steps.push("one that was late arrives".to_owned());
        }
    }

    fn reserved(&mut self, answer: Result<fencepost::engine::Reserved, Fault>) {
        let answer = answer.map(|told| {
            self.rounds.extend(told.grant.map(|grant| grant.id));
            told.decision
        });
        let replay = matches!(&answer, Ok(told) if told.verdict == Verdict::Replayed);
        self.told(answer, replay.then_some(""));
    }

    async fn finish(mut self) -> BTreeMap<&'static str, Bytes> {
        for late in std::mem::take(&mut self.late) {
            late.deliver().await;
        }
        let mut done = BTreeMap::new();
        for name in OPERATIONS {
            let mut found = Vec::new();
            for (sidecar, _) in &self.sidecars {
                let known = sidecar.lookup(&self.order, name).await;
                let finished = [OperationState::Done, OperationState::DoneEmpty];
                let finished = finished.contains(&known.state);
                let result = known.decision.and_then(|told| told.result);
                found.push((known.state, result.filter(|_| finished).map(|it| it.body)));
            }
            assert_eq!(found[0], found[1], "{name} after {:#?}", self.steps);
            done.extend(found[0].1.clone().map(|body| (name, body)));
        }
        let mut rest: Vec<_> = done.values().cloned().collect();
        for body in &self.replayed {
            assert!(
                rest.contains(body),
                "{body:?} was told, of {rest:?}: {:#?}",
                self.steps
            );
        }
        for body in &self.applied {
            let at = rest.iter().position(|one| one == body);
            let at =
                at.unwrap_or_else(|| panic!("{body:?} was lost, of {done:?}: {:#?}", self.steps));
            rest.swap_remove(at);
        }
        let made = |name| done.contains_key(name);
        assert!(!(made("pay") && made("cancel")), "{:#?}", self.steps);
        assert!(made("pay") || !made("ship"), "{:#?}", self.steps);
        let state = match () {
            () if made("ship") => "shipped",
            () if made("pay") => "paid",
            () if made("cancel") => "cancelled",
            () => "pending",
        };
        for (sidecar, _) in &self.sidecars {
            assert_eq!(sidecar.state(&self.order).await, state, "{:#?}", self.steps);
        }
        done
    }
}

async fn play(backend: Backend, seed: u64) -> usize {
    let mut world = World::begin(&backend, seed).await;
    for number in 0..STEPS {
        world.step(number).await;
    }
    world.finish().await.len()
}

async fn whatever_is_lost_or_late_each_operation_is_done_once_and_stays_so(backend: Backend) {
    let first = seed();
    let all = (0..SEQUENCES).map(|at| {
        let backend = backend.clone();
        tokio::spawn(play(backend, first.wrapping_add(at)))
    });
    let done: Vec<_> = futures_util::stream::iter(all)
        .buffered(AT_ONCE)
        .collect()
        .await;
    let done: usize = done.into_iter().map(|done| done.expect("see above")).sum();
    // Sequences that come to nothing would agree with anything.
    assert!(
        done >= 15,
        "only {done} operations were done in {SEQUENCES} sequences"
    );
}

engines! {
    whatever_is_lost_or_late_each_operation_is_done_once_and_stays_so,
}
