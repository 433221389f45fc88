//! The embedded engine against a real etcd: the same requests in the same order, every answer and
//! every refusal compared.
#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs
)]

mod directed;
mod etcd;
mod ops;
mod pair;
mod watches;
mod wire;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::ops::{Op, sequence};
use crate::pair::Pair;
use crate::watches::Watch;

const SEQUENCES: u32 = 256;
/// The same sequences in every run.
const SEED: [u8; 32] = *b"the embedded engine against etcd";

async fn play(pair: &mut Pair, sequence: Vec<Op>) {
    let mut watches: Vec<Watch> = Vec::new();
    for op in sequence {
        match op.at(pair.revision, pair.compacted) {
            Op::Watch(spec) => watches.extend(Watch::open(pair, spec).await),
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

#[tokio::test]
async fn random_sequences_are_answered_as_etcd_answers_them() {
    let mut pair = Pair::start().await;
    let config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &SEED);
    // Sequences run one after the other on one pair of stores, so proptest makes them here but
    // does not shrink them: a store cannot go back to before a difference.
    let mut runner = TestRunner::new_with_rng(config, rng);
    let sequences = sequence();
    for number in 0..SEQUENCES {
        let sequence = sequences.new_tree(&mut runner).unwrap().current();
        eprintln!("sequence {number}, from revision {}", pair.revision);
        play(&mut pair, sequence).await;
    }
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
    directed::odd_requests(&mut pair).await;
    directed::width(&mut pair).await;
    directed::overlaps(&mut pair).await;
    directed::sizes(&mut pair).await;
    directed::leases(&mut pair).await;
    directed::history(&mut pair).await;
    directed::every_refusal_was_met(&pair);
}

#[tokio::test]
async fn watch_ids_are_given_and_refused_as_etcd_does() {
    directed::watch_ids(&mut Pair::start().await).await;
}

#[tokio::test]
async fn leases_end_on_both_with_all_their_keys_in_one_revision() {
    directed::expiry(&mut Pair::start().await).await;
}
