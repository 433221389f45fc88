//! One resource in a store as small as can be: guards, one record, one reservation key, operations apart, incidents.

use std::time::Duration;

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::claim::Carried;
use crate::domain::decision::{Decision, IncidentId, Snapshot};
use crate::domain::explain::incident_ids;
use crate::domain::ids::{Kind, Nonce, OperationId, ReservationId, ResourceId};
use crate::domain::incident::{Evidence, Incident, KeptEvidence};
use crate::domain::judge::{
    Answer, Ask, Draft, FOLD_WRITES_MAX, Fold, HeldRound, Judged, Law, RecordWrite,
    ReservationChange, Standing,
};
use crate::domain::record::{LeaseId, Operation, Record};
use crate::domain::retention::{Keeping, StoreTime, When};
use crate::domain::token::{Revision, Timeline};
use crate::domain::waiter::WhoWaits;

pub(super) const BASE: u64 = 1_000_000;
/// When it is played, in seconds of the store's clock.
pub(super) const NOW: u64 = 1_800_000_000;

/// What a fold came to, with the guards of its commit.
#[derive(Clone, Debug)]
pub(super) struct Folded {
    pub(super) judged: Vec<Judged>,
    pub(super) write: Option<RecordWrite>,
    pub(super) absent: BTreeSet<OperationId>,
    pub(super) lawful: bool,
    seen: Option<Revision>,
    reservation: Option<Revision>,
}

/// A guard did not hold; nothing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused;

#[derive(Debug)]
pub(super) struct Play {
    pub(super) resource: ResourceId,
    pub(super) timeline: Timeline,
    pub(super) law: Law,
    revision: u64,
    pub(super) record: Option<(Record, Revision)>,
    pub(super) reservation: Option<Revision>,
    pub(super) apart: BTreeMap<OperationId, Operation>,
    pub(super) incidents: BTreeMap<IncidentId, Incident>,
    nonces: u128,
    pub(super) when: When,
    /// Whether an earlier commit may still arrive.
    pub(super) settling: bool,
    pub(super) waiting: WhoWaits,
}

impl Play {
    pub(super) fn new() -> Self {
        let kind = Kind::parse("order").unwrap();
        Self {
            resource: ResourceId::new(kind, "1001").unwrap(),
            timeline: Timeline {
                id: Nonce::from_bytes([9; 16]),
                base: BASE,
                min_token: 0,
            },
            law: Law::NoFile,
            revision: 10,
            record: None,
            reservation: None,
            apart: BTreeMap::new(),
            incidents: BTreeMap::new(),
            nonces: 0,
            settling: false,
            waiting: WhoWaits::default(),
            when: When {
                lag: Duration::ZERO,
                wall_ms: 1_000,
                now: StoreTime::from_seconds(NOW),
                keeping: Keeping::default(),
            },
        }
    }

    pub(super) fn nonce(&mut self) -> Nonce {
        self.nonces += 1;
        Nonce::from_bytes(self.nonces.to_be_bytes())
    }

    pub(super) fn id_of(&self, round: Nonce) -> ReservationId {
        ReservationId::new(self.resource.clone(), round)
    }

    /// Everything as it stands now, with the operations that were looked for.
    pub(super) fn standing(&self, looked_for: &[OperationId]) -> Standing {
        let known = Standing::seen(self.record.clone(), self.reservation).unwrap();
        let found = looked_for.iter().filter_map(|id| self.apart.get(id));
        known
            .with_operations(found.cloned())
            .with_absent(looked_for.iter().cloned())
    }

    pub(super) fn fold(&mut self, standing: &Standing, asks: &[Ask]) -> Folded {
        self.when.wall_ms += 1;
        let mut evidence = BTreeMap::new();
        loop {
            let fold = Fold::begin(&self.resource, standing, self.timeline, self.when);
            let mut fold = fold.under(&self.law).knowing(&evidence);
            if self.settling {
                fold = fold.settling();
            }
            let judged = asks.iter().map(|ask| fold.judge(ask)).collect();
            if fold.unread_evidence().is_empty() {
                return Self::folded(fold, judged, standing);
            }
            let unread = fold.unread_evidence().iter();
            evidence.extend(unread.map(|id| (id.clone(), self.evidence_of(id))));
        }
    }

    /// What an incident keeps.
    fn evidence_of(&self, id: &IncidentId) -> KeptEvidence {
        let mut kept = KeptEvidence::default();
        if let Some(incident) = self.incidents.get(id) {
            for one in &incident.evidence {
                let alone = Incident {
                    evidence: vec![one.clone()],
                    ..incident.clone()
                };
                kept.add(alone.part().unwrap());
            }
        }
        kept
    }

    fn folded(fold: Fold<'_>, judged: Vec<Judged>, standing: &Standing) -> Folded {
        Folded {
            judged,
            absent: fold.absent().clone(),
            lawful: fold.lawful(),
            write: fold.into_write(),
            seen: standing.revision(),
            reservation: standing.reservation(),
        }
    }

    /// Folds over everything as it stands now.
    pub(super) fn fold_now(&mut self, asks: &[Ask]) -> Folded {
        let claimed = asks.iter().filter_map(|ask| self.claimed_for(ask));
        let named = asks.iter().filter_map(operation_of);
        let looked_for: Vec<_> = named.chain(claimed).collect();
        self.fold(&self.standing(&looked_for), asks)
    }

    /// The operation that a request means by the round of its claim.
    fn claimed_for(&self, ask: &Ask) -> Option<OperationId> {
        let Ask::Complete(ask, _) = ask else {
            return None;
        };
        match self.record.as_ref()?.0.carried_by(ask.reservation.round()) {
            Carried::One(id) => Some(id),
            Carried::Several | Carried::Nothing => None,
        }
    }

    /// Commits under the guards; without a write, confirms them.
    pub(super) fn apply(&mut self, folded: &Folded) -> Result<Option<Revision>, Refused> {
        let holds = self.record.as_ref().map(|(_, at)| *at) == folded.seen
            && self.reservation == folded.reservation
            && folded.absent.iter().all(|id| !self.apart.contains_key(id));
        if !holds {
            return Err(Refused);
        }
        let Some(write) = folded.write.clone() else {
            return Ok(None);
        };
        let record = usize::from(write.record.is_some());
        let key = usize::from(write.reservation != ReservationChange::Keep);
        let gone = usize::from(write.gone.record) + write.gone.operations.len();
        let writes = record + key + write.operations.len() + write.incidents.len() + gone;
        assert!(writes <= FOLD_WRITES_MAX, "{writes} writes in one commit");
        assert!(writes > 0, "an empty commit");
        let at = self.step();
        match write.reservation {
            ReservationChange::Keep => {}
            ReservationChange::Grant(_) => {
                assert_eq!(self.reservation, None, "a grant over a key that exists");
                assert!(write.record.is_some(), "a grant without its record");
                self.reservation = Some(at);
            }
            ReservationChange::End => {
                assert!(write.record.is_some(), "a release without its record");
                self.reservation = None;
            }
        }
        if let Some(record) = write.record {
            self.record = Some((record, at));
        }
        for id in &write.gone.operations {
            assert!(self.apart.remove(id).is_some(), "{id} is not there");
        }
        if write.gone.record {
            assert!(self.reservation.is_none(), "a live round without a record");
            self.record = None;
        }
        for operation in write.operations {
            self.apart.insert(operation.id.clone(), operation);
        }
        for incident in write.incidents {
            self.raise(incident);
        }
        self.check();
        Ok(Some(at))
    }

    /// The first report stays; other evidence is added to it, each piece once.
    fn raise(&mut self, incident: Incident) {
        let id = incident.id.0.split('.').next().unwrap().to_owned();
        let mut findable = incident_ids(&incident.resource, incident.operation.as_ref());
        let found = findable.any(|possible| possible.0 == id);
        assert!(found, "a story would not find {incident:?}");
        let known = self
            .incidents
            .entry(IncidentId(id))
            .or_insert_with(|| incident.clone());
        for evidence in incident.evidence {
            let same = |other: &Evidence| {
                (other.round, &other.result) == (evidence.round, &evidence.result)
            };
            if !known.evidence.iter().any(same) {
                known.evidence.push(evidence);
            }
        }
    }

    /// What must hold of whatever was written.
    fn check(&self) {
        let Some((record, _)) = &self.record else {
            return;
        };
        Standing::seen(self.record.clone(), self.reservation).expect("record and key fit");
        assert_eq!(
            record.spilled,
            self.apart.len() as u64,
            "moved operations are counted once"
        );
        let mut inline = BTreeSet::new();
        let open = record.open.iter().map(|open| &open.intent.operation);
        for id in open {
            assert!(inline.insert(id), "open twice");
            assert!(!self.apart.contains_key(id), "open and apart");
        }
        for operation in &record.operations {
            assert!(inline.insert(&operation.id), "twice in the record");
            assert!(
                !self.apart.contains_key(&operation.id),
                "in the record and apart"
            );
        }
    }

    /// Judges one request, alone, and answers it.
    pub(super) fn ask(&mut self, ask: Ask) -> Answer {
        let mut answers = self.ask_all(&[ask]);
        answers.pop().unwrap()
    }

    /// Judges several in one fold; all must be answered.
    pub(super) fn ask_all(&mut self, asks: &[Ask]) -> Vec<Answer> {
        let folded = self.fold_now(asks);
        let committed = self.apply(&folded).unwrap();
        let drafts = folded.judged.into_iter().map(answered);
        drafts.map(|draft| draft.finish(committed)).collect()
    }

    /// Commits, but the answer is lost.
    pub(super) fn lose(&mut self, ask: &Ask) {
        let folded = self.fold_now(std::slice::from_ref(ask));
        self.apply(&folded).unwrap();
    }

    /// The lease of the reservation ends.
    pub(super) fn expire(&mut self) {
        if self.reservation.take().is_some() {
            self.step();
        }
    }

    /// Somebody else writes something else.
    pub(super) fn step(&mut self) -> Revision {
        self.revision += 1;
        Revision::from_etcd(self.revision as i64).unwrap()
    }
}

pub(super) const LEASE: LeaseId = LeaseId(77);

pub(super) fn operation_of(ask: &Ask) -> Option<OperationId> {
    match ask {
        Ask::Transition(ask, _) => Some(ask.intent.operation.clone()),
        Ask::Lookup(ask) => Some(ask.operation.clone()),
        Ask::Ride(ask, _) => Some(ask.intent.operation.clone()),
        Ask::Reserve(ask, ..) => Some(ask.intent.as_ref()?.operation.clone()),
        Ask::Resolve(ask, _) => Some(ask.operation.clone()),
        _ => None,
    }
}

pub(super) fn answered(judged: Judged) -> Draft {
    match judged {
        Judged::Answered(draft) => *draft,
        other => panic!("not answered: {other:?}"),
    }
}

impl Answer {
    pub(super) fn decision(&self) -> &Decision {
        match self {
            Self::Judged(decision)
            | Self::Ended(decision, ..)
            | Self::Held(decision, _)
            | Self::Known(_, Some(decision)) => decision,
            other => panic!("no decision: {other:?}"),
        }
    }

    pub(super) fn held(&self) -> HeldRound {
        match self {
            Self::Held(_, held) => *held,
            other => panic!("nothing held: {other:?}"),
        }
    }

    pub(super) fn snapshot(&self) -> &Snapshot {
        match self {
            Self::Snapshot(now) => now,
            other => self_now(other),
        }
    }
}

fn self_now(answer: &Answer) -> &Snapshot {
    answer
        .decision()
        .now
        .as_ref()
        .expect("shows the resource now")
}
