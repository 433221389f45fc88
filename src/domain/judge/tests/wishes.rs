//! What may happen in a random sequence.

use proptest::prelude::*;

use super::message::{Message, moves, once, result};
use crate::domain::claim::Finding;
use crate::domain::ids::Nonce;
use crate::domain::outcome::StoredResult;
use crate::domain::request::Afterwards;

/// What somebody wants; which round or token that means shows when it is asked.
#[derive(Clone, Debug)]
pub(super) enum Wish {
    Reserve {
        request: u8,
    },
    Release {
        back: usize,
        nothing_done: bool,
    },
    Claim {
        sent: Sent,
        request: u8,
        reruns: bool,
    },
    Complete {
        back: usize,
        result: usize,
        release: Option<bool>,
    },
    Resolve {
        operation: u8,
        finding: Finding,
        even_if_running: bool,
    },
    Check {
        back: usize,
    },
    Fence {
        back: usize,
        off: i64,
        ended: bool,
    },
    Send(Sent),
    Lookup {
        operation: u8,
    },
    Inspect,
    Sweep,
}

#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) operation: u8,
    pub(super) shape: usize,
    pub(super) other_content: bool,
    pub(super) under: Option<usize>,
    pub(super) result: usize,
    pub(super) release: Option<bool>,
}

/// What becomes of a commit.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    Answered,
    ReplyLost,
    OnItsWay,
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
}

/// The messages that can be about the resource.
pub(super) fn shape(at: usize, id: &str) -> Message {
    let all = [
        moves(id, "", "").initially("new").sets("attempt", "p1"),
        moves(id, "new|paid", "").sets("attempt", "p1"),
        moves(id, "new|paid", "").sets("attempt", "p2"),
        moves(id, "new", "paid").of("attempt", "p1"),
        moves(id, "new", "paid").of("attempt", "p2"),
        moves(id, "new", "paid").initially("new"),
        moves(id, "new", "cancelled"),
        moves(id, "paid|cancelled", "new"),
        moves(id, "paid", "shipped").sets("parcel", "b1"),
        moves(id, "paid", "shipped").sets("parcel", "b2"),
        once(id),
        once(id).of("parcel", "b1"),
    ];
    all[at % all.len()].clone()
}

/// How many rounds ago: most often the last one.
fn back() -> impl Strategy<Value = usize> {
    prop_oneof![3 => Just(0), 1 => 1..3_usize]
}

fn sent() -> impl Strategy<Value = Sent> {
    let sent = (
        0..14_u8,
        0..12_usize,
        prop::bool::weighted(0.15),
        prop::option::weighted(0.4, back()),
        0..6_usize,
        prop::option::weighted(0.3, any::<bool>()),
    );
    sent.prop_map(
        |(operation, shape, other_content, under, result, release)| Sent {
            operation,
            shape,
            other_content,
            under,
            result,
            release,
        },
    )
}

fn wishes() -> impl Strategy<Value = Wish> {
    // Few operations, so that they meet again.
    let claimed = (sent(), 0..40_u8, any::<bool>());
    let claimed = claimed.prop_map(|(sent, request, reruns)| {
        let operation = sent.operation % 5;
        let sent = Sent { operation, ..sent };
        Wish::Claim {
            sent,
            request,
            reruns,
        }
    });
    let completed = (
        back(),
        0..6_usize,
        prop::option::weighted(0.3, any::<bool>()),
    );
    let completed = completed.prop_map(|(back, result, release)| Wish::Complete {
        back,
        result,
        release,
    });
    let finding = prop::sample::select(vec![Finding::Done, Finding::NotDone, Finding::Refused]);
    let resolved = (0..6_u8, finding, any::<bool>());
    let resolved = resolved.prop_map(|(operation, finding, even_if_running)| Wish::Resolve {
        operation,
        finding,
        even_if_running,
    });
    prop_oneof![
        2 => (0..40_u8).prop_map(|request| Wish::Reserve { request }),
        3 => (back(), any::<bool>()).prop_map(|(back, nothing_done)| Wish::Release { back, nothing_done }),
        6 => claimed,
        4 => completed,
        2 => resolved,
        1 => back().prop_map(|back| Wish::Check { back }),
        2 => (back(), -1..2_i64, any::<bool>())
            .prop_map(|(back, off, ended)| Wish::Fence { back, off, ended }),
        10 => sent().prop_map(Wish::Send),
        1 => (0..14_u8).prop_map(|operation| Wish::Lookup { operation }),
        1 => Just(Wish::Inspect),
        1 => Just(Wish::Sweep),
    ]
}

pub(super) fn steps() -> impl Strategy<Value = Step> {
    let fate = prop_oneof![
        6 => Just(Fate::Answered),
        2 => Just(Fate::ReplyLost),
        1 => Just(Fate::OnItsWay),
    ];
    let fold = (0..2_usize, prop::collection::vec(wishes(), 0..5), fate);
    let fold = fold.prop_map(|(sidecar, wishes, fate)| Step::Fold {
        sidecar,
        wishes,
        fate,
    });
    prop_oneof![
        12 => fold,
        2 => Just(Step::Expire),
        1 => Just(Step::Arrive),
        1 => (0..2_usize).prop_map(|sidecar| Step::Restart { sidecar }),
    ]
}

/// What the effect said, in one of several sizes; beyond them, nothing.
pub(super) fn said(size: usize, nonce: Nonce) -> Option<StoredResult> {
    let sizes = [0_usize, 5, 700, 2000];
    sizes.get(size).map(|size| {
        let mut body = nonce.as_bytes().repeat(size.div_ceil(16));
        body.truncate(*size);
        result(&body)
    })
}

pub(super) fn afterwards(release: Option<bool>) -> Option<Afterwards> {
    release.map(|release| match release {
        true => Afterwards::Ends,
        false => Afterwards::Stays,
    })
}
