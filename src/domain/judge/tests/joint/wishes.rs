//! What may happen in a random sequence.

use proptest::prelude::*;

use super::super::wishes::Fate;
use super::sketch::{Revised, revised};
use crate::domain::claim::Finding;

/// What somebody wants; which event, round or message that means shows when it is asked.
#[derive(Clone, Debug)]
pub(super) enum Wish {
    Reserve {
        request: u8,
    },
    Release {
        back: usize,
        nothing_done: bool,
    },
    Send {
        message: Message,
        under: Option<usize>,
        beside: Beside,
    },
    Claim {
        message: Message,
        ridden: Option<usize>,
        request: u8,
    },
    Complete {
        back: usize,
        beside: Beside,
    },
    Resolve {
        id: u8,
        finding: Finding,
        even_if_running: bool,
        attempt: Option<u32>,
    },
    Lookup {
        id: u8,
    },
    Inspect,
    /// A caller whose answer was lost asks once more, with the same ids.
    Repeat(usize),
}

#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) id: u8,
    /// Another delivery of what was first sent under this id, if anything was.
    pub(super) same: bool,
    pub(super) event: usize,
    pub(super) values: [u8; 2],
    /// Whether a value that the event does not need is given, too.
    pub(super) extra: [bool; 2],
    /// Whether one that it needs is missing.
    pub(super) lacks: bool,
    pub(super) content: [u8; 2],
    pub(super) old: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    pub(super) result: u8,
    pub(super) ends: Option<bool>,
    pub(super) outcome: Option<usize>,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Fold {
        sidecar: usize,
        wishes: Vec<Wish>,
        fate: Fate,
    },
    Expire,
    Arrive,
    Restart {
        sidecar: usize,
    },
    Switch(Box<Revised>),
}

fn message() -> impl Strategy<Value = Message> {
    (
        (0..12_u8, prop::bool::weighted(0.8), 0..14_usize),
        [0..3_u8, 0..2_u8],
        [prop::bool::weighted(0.1), prop::bool::weighted(0.1)],
        prop::bool::weighted(0.02),
        [
            prop_oneof![5 => Just(0), 1 => Just(1_u8)],
            prop_oneof![5 => Just(0), 1 => Just(1_u8)],
        ],
        prop::bool::weighted(0.03),
    )
        .prop_map(
            |((id, same, event), values, extra, lacks, content, old)| Message {
                id,
                same,
                event,
                values,
                extra,
                lacks,
                content,
                old,
            },
        )
}

fn beside(outcome: f64) -> impl Strategy<Value = Beside> {
    (
        0..6_u8,
        prop::option::weighted(0.35, any::<bool>()),
        prop::option::weighted(outcome, 0..14_usize),
    )
        .prop_map(|(result, ends, outcome)| Beside {
            result,
            ends,
            outcome,
        })
}

/// How many rounds ago: most often the last one.
fn back() -> impl Strategy<Value = usize> {
    prop_oneof![4 => Just(0), 1 => 1..3_usize]
}

fn finding() -> impl Strategy<Value = Finding> {
    prop_oneof![
        Just(Finding::Done),
        Just(Finding::NotDone),
        Just(Finding::Refused)
    ]
}

fn wish() -> impl Strategy<Value = Wish> {
    prop_oneof![
        1 => (0..4_u8).prop_map(|request| Wish::Reserve { request }),
        2 => (back(), any::<bool>())
            .prop_map(|(back, nothing_done)| Wish::Release { back, nothing_done }),
        7 => (message(), prop::option::weighted(0.3, back()), beside(0.05))
            .prop_map(|(message, under, beside)| Wish::Send { message, under, beside }),
        6 => (message(), prop::option::weighted(0.3, back()), 0..40_u8)
            .prop_map(|(message, ridden, request)| Wish::Claim { message, ridden, request }),
        5 => (back(), beside(0.35)).prop_map(|(back, beside)| Wish::Complete { back, beside }),
        2 => (0..12_u8, finding(), any::<bool>(), prop::option::weighted(0.2, 1..3_u32)).prop_map(
            |(id, finding, even_if_running, attempt)| Wish::Resolve {
                id,
                finding,
                even_if_running,
                attempt,
            }
        ),
        1 => (0..12_u8).prop_map(|id| Wish::Lookup { id }),
        1 => Just(Wish::Inspect),
        2 => (0..4_usize).prop_map(Wish::Repeat),
    ]
}

pub(super) fn steps() -> impl Strategy<Value = Step> {
    let fate = prop_oneof![
        7 => Just(Fate::Answered),
        2 => Just(Fate::ReplyLost),
        1 => Just(Fate::OnItsWay),
    ];
    prop_oneof![
        16 => (0..2_usize, prop::collection::vec(wish(), 1..5), fate)
            .prop_map(|(sidecar, wishes, fate)| Step::Fold { sidecar, wishes, fate }),
        2 => Just(Step::Expire),
        1 => Just(Step::Arrive),
        1 => (0..2_usize).prop_map(|sidecar| Step::Restart { sidecar }),
        1 => revised().prop_map(|revised| Step::Switch(Box::new(revised))),
    ]
}
