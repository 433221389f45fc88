//! Several resources in one round: all or nothing, and nobody ends a part of it.

use super::message::{moves, once, operation, reserve_as};
use super::play::{BASE, LEASE, Play};
use crate::domain::decision::{Rule, Verdict};
use crate::domain::ids::{Kind, Nonce, RequestId, ReservationId, ResourceId};
use crate::domain::judge::{
    Answer, Ask, Concerted, Draft, Fold, INLINE_BYTES_MAX, Judged, Queue, ReservationChange,
    Several, Standing, Turn,
};
use crate::domain::record::{Operation, RoundEnd};
use crate::domain::request::{Afterwards, Left, Ttl};
use crate::domain::together::{Company, ReserveTogether, Together};
use crate::domain::token::Revision;
use crate::domain::waiter::{Place, WaiterName};

fn resource(id: &str) -> ResourceId {
    ResourceId::new(Kind::parse("order").unwrap(), id).unwrap()
}

fn nonce(n: u8) -> Nonce {
    Nonce::from_bytes([n; 16])
}

fn revision(n: i64) -> Revision {
    Revision::from_etcd(n).unwrap()
}

fn ask(request: u8, ids: &[&str]) -> ReserveTogether {
    let mut resources = ids.iter().map(|id| resource(id));
    let first = resources.next().unwrap();
    ReserveTogether {
        together: Together::new(first, resources.collect()).unwrap(),
        request: RequestId::from_bytes([request; 16]),
        ttl: Ttl::parse(None).unwrap(),
        holder: None,
    }
}

/// Some resources in a store as small as can be.
struct World {
    play: Play,
    kept: Vec<(ResourceId, Standing)>,
    revision: i64,
}

impl World {
    fn new(ids: &[&str]) -> Self {
        let kept = ids.iter().map(|id| (resource(id), Standing::absent()));
        Self {
            play: Play::new(),
            kept: kept.collect(),
            revision: 10,
        }
    }

    fn fold(&self, at: usize) -> Fold<'_> {
        let (resource, standing) = &self.kept[at];
        Fold::begin(resource, standing, self.play.timeline, self.play.when)
    }

    fn several(&self) -> Several<'_> {
        let others = (1..self.kept.len()).map(|at| self.fold(at));
        Several::new(self.fold(0), others.collect())
    }

    /// Writes all of it, or answers.
    fn settle(&mut self, concerted: Concerted) -> Answer {
        let (draft, writes) = match concerted {
            Concerted::Commit { draft, writes } => (draft, writes),
            Concerted::Answer(draft) => return draft.finish(None),
            other => panic!("no answer: {other:?}"),
        };
        self.revision += 1;
        let at = revision(self.revision);
        for (kept, write) in self.kept.iter_mut().zip(writes) {
            let write = write.expect("a write for each resource");
            assert!(write.operations.is_empty() && write.incidents.is_empty());
            let key = match write.reservation {
                ReservationChange::Grant(lease) => {
                    assert_eq!(lease, LEASE);
                    assert_eq!(kept.1.reservation(), None, "a grant over a key that exists");
                    Some(at)
                }
                ReservationChange::End => None,
                ReservationChange::Keep => panic!("nothing happens to the key"),
            };
            kept.1 = Standing::seen(Some((write.record.unwrap(), at)), key).unwrap();
        }
        draft.finish(Some(at))
    }

    fn reserve(&mut self, ask: &ReserveTogether, n: u8) -> Answer {
        let concerted = self.several().reserve(ask, nonce(n), Some(LEASE));
        self.settle(concerted)
    }

    fn release(&mut self, id: &ReservationId, n: u8) -> Answer {
        let concerted = self.several().release(id, nonce(n));
        self.settle(concerted)
    }

    /// One of them is asked alone; what is to be written is.
    fn alone(&mut self, at: usize, ask: &Ask) -> Judged {
        let mut fold = self.fold(at);
        let judged = fold.judge(ask);
        if let Some(write) = fold.into_write() {
            self.revision += 1;
            let now = revision(self.revision);
            let key = match write.reservation {
                ReservationChange::Grant(_) => Some(now),
                ReservationChange::End => None,
                ReservationChange::Keep => self.kept[at].1.reservation(),
            };
            self.kept[at].1 = Standing::seen(Some((write.record.unwrap(), now)), key).unwrap();
        }
        judged
    }
}

fn verdict(answer: &Answer) -> (Verdict, Rule) {
    (answer.decision().verdict, answer.decision().rule)
}

fn finished(judged: Judged) -> Answer {
    let draft: Draft = super::play::answered(judged);
    draft.finish(Some(revision(1_000)))
}

const ALL: [&str; 3] = ["a", "b", "c"];

#[test]
fn all_that_are_free_begin_one_round_that_the_first_in_order_names() {
    let mut world = World::new(&ALL);
    // In whatever order they are named.
    let granted = world.reserve(&ask(1, &["c", "a", "b"]), 1);
    assert_eq!(verdict(&granted), (Verdict::Granted, Rule::WasFree));
    let held = granted.held();
    assert_eq!(held.token.get(), BASE + 11);
    let id = held.id(resource("a"));
    assert_eq!(id, ReservationId::of_several(resource("a"), nonce(1)));
    for at in 0..ALL.len() {
        let (record, live) = world.kept[at].1.opened();
        let round = record.round.unwrap();
        assert_eq!(round.token(None), Some(held.token));
        assert!(live.is_some() && round.is_called(&world.kept[at].0, &id));
        let company = match at {
            0 => Company::Leads(vec![resource("b"), resource("c")]),
            _ => Company::Follows(resource("a")),
        };
        assert_eq!(round.company, company);
    }
}

#[test]
fn one_that_is_held_stands_against_all_and_is_named() {
    for (held, name) in ALL.into_iter().enumerate() {
        let mut world = World::new(&ALL);
        let other = reserve_as(&resource(name), 9, nonce(9));
        finished(world.alone(held, &other));
        let busy = world.reserve(&ask(1, &ALL), 1);
        assert_eq!(verdict(&busy), (Verdict::Busy, Rule::Held));
        let told = &busy.decision().explanation;
        assert!(told.contains(&format!("order/{}", name)), "{told}");
        let shown = busy.decision().now.clone().unwrap();
        assert_eq!(shown.resource, resource(name));
        assert!(shown.live.is_some() && busy.decision().retry_after.is_some());
    }
}

#[test]
fn the_same_request_for_the_same_resources_gets_its_round_back_and_for_others_is_refused() {
    let mut world = World::new(&ALL);
    let first = world.reserve(&ask(1, &ALL), 1).held();
    let again = world.reserve(&ask(1, &["b", "c", "a"]), 2);
    assert_eq!(verdict(&again), (Verdict::Granted, Rule::SameRequest));
    assert_eq!(again.held(), first);
    // Its own commit, whose reply was lost.
    let ours = world.reserve(&ask(1, &ALL), 1);
    assert_eq!(verdict(&ours), (Verdict::Granted, Rule::WasFree));
    for others in [vec!["a", "b"], vec!["b", "c"], vec!["a", "b", "c", "d"]] {
        let kept = world.kept.iter().map(|(id, standing)| (id, standing));
        let (d, free) = (resource("d"), Standing::absent());
        let all: Vec<_> = kept.chain([(&d, &free)]).collect();
        let asked = ask(1, &others);
        let mut folds = asked.together.all().iter().map(|named| {
            let (resource, standing) = all.iter().find(|(id, _)| *id == named).unwrap();
            Fold::begin(resource, standing, world.play.timeline, world.play.when)
        });
        let lead = folds.next().unwrap();
        let several = Several::new(lead, folds.collect());
        match several.reserve(&asked, nonce(3), Some(LEASE)) {
            Concerted::Unfit { field, .. } => assert_eq!(field, "request_id"),
            other => panic!("{others:?}: {other:?}"),
        }
    }
    for (at, name) in ALL.into_iter().enumerate() {
        let alone = reserve_as(&resource(name), 1, nonce(4));
        match world.alone(at, &alone) {
            Judged::Unfit { field, .. } => assert_eq!(field, "request_id"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_request_whose_round_is_over_on_any_of_them_needs_a_new_id() {
    let mut world = World::new(&ALL);
    let id = world.reserve(&ask(1, &ALL), 1).held().id(resource("a"));
    world.release(&id, 2);
    for asked in [&ALL[..], &["b", "c"]] {
        let mut some = World::new(asked);
        some.kept = world.kept[ALL.len() - asked.len()..].to_vec();
        let over = some.reserve(&ask(1, asked), 3);
        assert_eq!(verdict(&over), (Verdict::Fenced, Rule::Released));
    }
    assert_eq!(
        verdict(&world.reserve(&ask(2, &ALL), 4)),
        (Verdict::Granted, Rule::WasFree)
    );
}

#[test]
fn a_release_ends_all_of_them_once_and_later_ones_change_nothing() {
    let mut world = World::new(&ALL);
    let id = world.reserve(&ask(1, &ALL), 1).held().id(resource("a"));
    let ended = world.release(&id, 2);
    assert_eq!(verdict(&ended), (Verdict::Applied, Rule::Ended));
    assert!(matches!(ended, Answer::Ended(_, round, lease) if (round, lease) == (nonce(1), LEASE)));
    for (_, standing) in &world.kept {
        let (record, live) = standing.opened();
        let over = record.round.unwrap().over;
        assert_eq!(over, Some(RoundEnd::Released(nonce(2).mark())));
        assert!(live.is_none());
    }
    // Its own commit, whose reply was lost; then that of somebody else.
    let ours = world.release(&id, 2);
    assert_eq!(verdict(&ours), (Verdict::Applied, Rule::Ended));
    let late = world.release(&id, 3);
    assert_eq!(verdict(&late), (Verdict::Replayed, Rule::Released));
    world.reserve(&ask(2, &ALL), 4);
    let old = world.release(&id, 5);
    assert_eq!(verdict(&old), (Verdict::Replayed, Rule::Released));
    assert!(
        world
            .kept
            .iter()
            .all(|(_, kept)| kept.reservation().is_some())
    );
}

#[test]
fn no_request_of_one_resource_ends_its_part_of_the_round() {
    let mut world = World::new(&ALL);
    let id = world.reserve(&ask(1, &ALL), 1).held().id(resource("a"));
    for (at, name) in ALL.into_iter().enumerate() {
        // An id that was never given out names nothing.
        let forged = ReservationId::new(resource(name), nonce(1));
        let forged = finished(world.alone(at, &Ask::Release(forged, Left::Unsaid, nonce(7))));
        assert_eq!(forged.decision().verdict, Verdict::Replayed);
        let part = world.alone(at, &Ask::Release(id.clone(), Left::Unsaid, nonce(7)));
        assert!(
            matches!(
                part,
                Judged::Unfit {
                    field: "reservation_id",
                    ..
                }
            ),
            "{part:?}"
        );
        let mut ends = moves("op", "", "x").initially("new").under(&id);
        ends.afterwards = Some(Afterwards::Ends);
        let ends = world.alone(at, &ends.ask(&resource(name), nonce(8)));
        assert!(
            matches!(
                ends,
                Judged::Unfit {
                    field: "release",
                    ..
                }
            ),
            "{ends:?}"
        );
        let moved = moves("op", "", "x").initially("new").under(&id);
        let moved = finished(world.alone(at, &moved.ask(&resource(name), nonce(8))));
        assert_eq!(moved.decision().verdict, Verdict::Applied);
        assert!(world.kept[at].1.reservation().is_some());
        let live = finished(world.alone(at, &Ask::Check(id.clone())));
        assert_eq!(verdict(&live), (Verdict::Granted, Rule::Renewed));
    }
}

#[test]
fn a_round_is_released_only_with_all_of_its_resources() {
    let mut world = World::new(&ALL);
    let id = world.reserve(&ask(1, &ALL), 1).held().id(resource("a"));
    world.kept.pop();
    let part = world.several().release(&id, nonce(2));
    assert!(matches!(part, Concerted::Incomplete), "{part:?}");
}

#[test]
fn what_is_known_too_little_of_leaves_a_gap_in_what_would_be_written() {
    let mut world = World::new(&ALL);
    let id = world.reserve(&ask(1, &ALL), 1).held().id(resource("a"));
    world.kept[2].1 = Standing::absent();
    match world.several().release(&id, nonce(2)) {
        Concerted::Commit { writes, .. } => {
            let there: Vec<_> = writes.iter().map(Option::is_some).collect();
            assert_eq!(there, [true, true, false]);
        }
        other => panic!("{other:?}"),
    }
}

// Sixteen records share one commit: none of them may bring more than itself and its key.
#[test]
fn a_record_that_has_grown_too_large_is_not_spilled_by_a_round_of_several() {
    let mut world = World::new(&ALL);
    let ran = once("op").saying("receipt").ask(&resource("b"), nonce(9));
    world.alone(1, &ran);
    let mut large = world.kept[1].1.opened().0;
    let one = large.operations[0].clone();
    while large.operations.iter().map(Operation::size).sum::<usize>() <= INLINE_BYTES_MAX {
        let id = operation(&format!("op {}", large.operations.len()));
        large.operations.push(Operation { id, ..one.clone() });
    }
    world.kept[1].1 = Standing::seen(Some((large, revision(11))), None).unwrap();
    let granted = world.reserve(&ask(1, &ALL), 1);
    assert_eq!(verdict(&granted), (Verdict::Granted, Rule::WasFree));
    // Another write of it alone does.
    let mut fold = world.fold(1);
    let id = granted.held().id(resource("a"));
    let more = once("more").under(&id).ask(&resource("b"), nonce(8));
    assert!(matches!(fold.judge(&more), Judged::Answered(_)));
    assert!(!fold.into_write().unwrap().operations.is_empty());
}

fn place(since: i64) -> Place {
    Place {
        since: revision(since),
        name: WaiterName {
            arrival: 1,
            nonce: nonce(7),
        },
    }
}

/// What the commit of one who has waited says of each queue; nothing if it is somebody else's turn.
fn turns(world: &World, queues: [Option<Queue>; 3], mine: Option<Place>) -> Option<Vec<Turn>> {
    let standings = world.kept.iter().zip(queues);
    let standings: Vec<_> = standings
        .map(|((_, standing), queue)| standing.clone().with_queue(queue))
        .collect();
    let folds = world.kept.iter().zip(&standings);
    let mut folds = folds.map(|((resource, _), standing)| {
        Fold::begin(resource, standing, world.play.timeline, world.play.when)
    });
    let several = Several::new(folds.next().unwrap(), folds.collect());
    match several
        .placed(mine, true)
        .reserve(&ask(1, &ALL), nonce(1), Some(LEASE))
    {
        Concerted::Commit { writes, .. } => Some(
            writes
                .into_iter()
                .map(|write| write.unwrap().turn)
                .collect(),
        ),
        Concerted::Answer(draft) => {
            let told = verdict(&draft.finish(None));
            assert_eq!(told, (Verdict::Busy, Rule::Queued));
            None
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn several_are_granted_only_by_their_place_in_each_queue() {
    let world = World::new(&ALL);
    let (mine, other) = (place(5), place(4));
    let first = |place| Some(Queue::First(place));
    let of_first = Turn::OfFirst(mine);
    for (queues, place, expected) in [
        ([None; 3], None, Some(vec![Turn::OfNobody; 3])),
        ([None; 3], Some(mine), Some(vec![of_first; 3])),
        ([first(mine); 3], Some(mine), Some(vec![of_first; 3])),
        (
            [first(mine), None, Some(Queue::Untrusted)],
            Some(mine),
            Some(vec![of_first, of_first, Turn::OutOfOrder(mine)]),
        ),
        // Behind another one in any of them, or no longer in one, it waits.
        ([first(mine), first(other), first(mine)], Some(mine), None),
        ([None, None, first(other)], Some(mine), None),
        ([None, Some(Queue::Nobody), None], Some(mine), None),
        ([None, first(other), None], None, None),
    ] {
        assert_eq!(turns(&world, queues, place), expected, "{queues:?}");
    }
}

#[test]
fn several_without_a_lease_are_left_alone_only_if_they_would_be_granted() {
    let mut world = World::new(&ALL);
    let unleased = |world: &World| world.several().reserve(&ask(1, &ALL), nonce(1), None);
    assert!(matches!(unleased(&world), Concerted::Unleased));
    world.reserve(&ask(2, &ALL), 2);
    let told = unleased(&world);
    assert!(!told.writes());
    let told = world.settle(told);
    assert_eq!(verdict(&told), (Verdict::Busy, Rule::Held));
}

#[test]
fn what_settles_several_puts_the_record_of_the_lead_and_changes_nothing_it_says() {
    let mut world = World::new(&ALL);
    for held in [false, true] {
        if held {
            world.reserve(&ask(2, &ALL), 2);
        }
        let [Some(lead), None, None] = <[_; 3]>::try_from(world.several().settling()).unwrap()
        else {
            panic!("one is written");
        };
        assert_eq!(lead.reservation, ReservationChange::Keep);
        assert_eq!(lead.turn, Turn::None);
        let record = lead.record.expect("it is put");
        assert_eq!(record.round.is_some(), held);
        assert!(record.operations.is_empty() && lead.incidents.is_empty());
    }
}
