//! The embedded engine against a real etcd: the same requests in the same order, every answer and
//! every refusal compared.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs
)]

mod etcd;
mod lifetimes;
mod ops;
mod pair;
mod requests;
#[allow(dead_code, reason = "what draws from few is for other tests")]
#[path = "../support/seed.rs"]
mod seed;
mod transactions;
mod watches;
mod wire;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::etcd::Line;
use crate::ops::{Op, sequence};
use crate::pair::Pair;
use crate::seed::{Draw, seed};
use crate::watches::Watch;

const SEQUENCES: u32 = 256;
/// The same sequences in every run.
const SEED: [u8; 32] = *b"the embedded engine against etcd";

/// Further sequences that no run has played before.
const FRESH_SEQUENCES: u32 = 64;

/// The first that does not take a negative revision of a watch for none.
const REFUSES_NEGATIVE_STARTS: Line = (3, 5);

/// Every refusal the engine owes etcd.
const REFUSALS: [&str; 13] = [
    "InvalidArgument: etcdserver: key is not provided",
    "InvalidArgument: etcdserver: key not found",
    "InvalidArgument: etcdserver: value is provided",
    "InvalidArgument: etcdserver: lease is provided",
    "InvalidArgument: etcdserver: too many operations in txn request",
    "InvalidArgument: etcdserver: duplicate key given in txn request",
    "InvalidArgument: etcdserver: request is too large",
    "OutOfRange: etcdserver: mvcc: required revision has been compacted",
    "OutOfRange: etcdserver: mvcc: required revision is a future revision",
    "OutOfRange: etcdserver: too large lease TTL",
    "NotFound: etcdserver: requested lease not found",
    "FailedPrecondition: etcdserver: lease already exists",
    "ResourceExhausted: grpc: received message larger than max",
];

async fn play(pair: &mut Pair, sequence: Vec<Op>) {
    let mut watches: Vec<Watch> = Vec::new();
    for op in sequence {
        match op.at(pair.revision, pair.compacted) {
            Op::Watch(mut spec) => {
                if pair.line >= REFUSES_NEGATIVE_STARTS {
                    spec.start = spec.start.max(0);
                }
                watches.extend(Watch::open(pair, spec).await);
            }
            compact @ Op::Compact(_) => {
                // What etcd tells of before a compaction depends on how quick it is to tell.
                for watch in &mut watches {
                    watch.catch_up(pair).await;
                }
                pair.run(compact).await;
            }
            op => pair.run(op).await,
        }
    }
    for watch in watches {
        watch.close(pair).await;
    }
}

/// Plays so many sequences that follow from a seed.
async fn play_all(seed: &[u8; 32], count: u32) -> Pair {
    let mut pair = Pair::start().await;
    let config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, seed);
    // Sequences run one after the other on one pair of stores, so proptest makes them here but
    // does not shrink them: a store cannot go back to before a difference.
    let mut runner = TestRunner::new_with_rng(config, rng);
    let sequences = sequence();
    for number in 0..count {
        let sequence = sequences.new_tree(&mut runner).unwrap().current();
        eprintln!("sequence {number}, from revision {}", pair.revision);
        play(&mut pair, sequence).await;
    }
    pair
}

/// As many numbers as a run of proptest takes, from one.
fn spread(seed: u64) -> [u8; 32] {
    let mut draw = Draw(seed);
    let numbers = [(); 4].map(|()| draw.next().to_le_bytes());
    numbers.concat().try_into().unwrap()
}

#[tokio::test]
async fn sequences_that_no_run_has_played_are_answered_as_etcd_answers_them() {
    play_all(&spread(seed()), FRESH_SEQUENCES).await;
}

#[tokio::test]
async fn random_sequences_are_answered_as_etcd_answers_them() {
    let pair = play_all(&SEED, SEQUENCES).await;
    assert!(pair.revision > 1_000, "the sequences hardly wrote");
    eprintln!(
        "answers: {:#?}\nrefusals: {:#?}",
        pair.answers, pair.refusals
    );
    // A generator gone astray would leave nothing but refusals to agree on.
    let least = pair.answers.values().min().copied().unwrap_or_default();
    assert!(
        pair.answers.len() == 11 && least >= 40,
        "{:#?}",
        pair.answers
    );
    assert!(pair.answers["TxnResponse"] >= 1_000, "{:#?}", pair.answers);
    assert!(pair.refusals.len() >= 10, "{:#?}", pair.refusals);
}

#[tokio::test]
async fn every_refusal_of_etcd_is_met_and_has_its_code_and_its_words() {
    let mut pair = Pair::start().await;
    transactions::odd_requests(&mut pair).await;
    transactions::width(&mut pair).await;
    transactions::overlaps(&mut pair).await;
    transactions::guards(&mut pair).await;
    transactions::sizes(&mut pair).await;
    lifetimes::leases(&mut pair).await;
    lifetimes::history(&mut pair).await;
    let met = |owed: &&str| pair.refusals.iter().any(|met| met.starts_with(*owed));
    let unmet: Vec<_> = REFUSALS.iter().filter(|owed| !met(owed)).collect();
    assert!(unmet.is_empty(), "never met: {unmet:#?}");
}

#[tokio::test]
async fn watch_ids_are_given_and_refused_as_etcd_does() {
    lifetimes::watch_ids(&mut Pair::start().await).await;
}

#[tokio::test]
async fn leases_end_on_both_with_all_their_keys_in_one_revision() {
    lifetimes::expiry(&mut Pair::start().await).await;
}
