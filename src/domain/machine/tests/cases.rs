//! For every rule, what breaks it.

use super::super::{Rule, Severity};
use Severity::{Error, Warning};

pub(super) const GO: &str = "go: { from: [a], to: b, matches: [round] }";
const MAKE: &str = "make: { creates: a, sets: [round] }";
const END: &str = "end: { from: [b], to: z, matches: [round] }";
pub(super) const STATES: &str = "states: { a: {}, b: {}, z: { final: true } }";

/// The rule, the part of the base that is exchanged, and by what: the mark is where the finding must be.
pub(super) const CASES: &[(Rule, Severity, &str, &str)] = &[
    // What cannot be read.
    (Rule::Yaml, Error, GO, "go: { from: [a§}"),
    (Rule::Yaml, Error, GO, "go: §&x { from: [a], to: b }"),
    (Rule::Yaml, Error, GO, "go: §!!map { from: [a], to: b }"),
    (
        Rule::Yaml,
        Error,
        "kind: parcel",
        "kind: parcel\n§--- \nkind: other",
    ),
    (Rule::Yaml, Error, GO, "§[a]: { from: [a], to: b }"),
    (
        Rule::UnknownKey,
        Error,
        GO,
        "go: { from: [a], to: b, §matchs: [round] }",
    ),
    (
        Rule::UnknownKey,
        Error,
        "kind: parcel",
        "kind: parcel\n§kinds: x",
    ),
    (
        Rule::UnknownKey,
        Error,
        STATES,
        "states: { a: { §finale: true }, b: {}, z: { final: true } }",
    ),
    (
        Rule::UnknownKey,
        Error,
        END,
        "end: { from: [b], to: z, upstream: { §window: 3h } }",
    ),
    (Rule::Missing, Error, "kind: parcel\nversion", "§version"),
    (Rule::Missing, Error, GO, "§go: { to: b }"),
    (
        Rule::Missing,
        Error,
        GO,
        "go: { from: [a], to: b, digest: §{} }",
    ),
    (Rule::Value, Error, "version: 1", "version: §1.0"),
    (Rule::Value, Error, "version: 1", "version: §0"),
    (Rule::Value, Error, "version: 1", "version: §01"),
    (Rule::Value, Error, "version: 1", "version: §\"1\""),
    (Rule::Value, Error, "version: 1", "version: §4294967296"),
    (Rule::Value, Error, GO, "go: { from: §a, to: b }"),
    (Rule::Value, Error, GO, "go: { from: §[], to: b }"),
    (
        Rule::Value,
        Error,
        GO,
        "go: { from: [a], to: b, origin: §usr }",
    ),
    (
        Rule::Value,
        Error,
        GO,
        "go: { from: [a], to: b, matches: [§a b] }",
    ),
    (
        Rule::Value,
        Error,
        STATES,
        "states: { a: {}, b: {}, z: { final: §yes } }",
    ),
    (
        Rule::Value,
        Error,
        GO,
        "go: { from: [a], to: b, digest: { include: [§amount] } }",
    ),
    (
        Rule::Value,
        Error,
        GO,
        "go: { from: [a], to: b, digest: { include: [§/a~2] } }",
    ),
    (
        Rule::Value,
        Error,
        GO,
        "go: { from: [a], to: b }\n  §none: { from: [a] }",
    ),
    (Rule::Duration, Error, "retention: 1h", "retention: §96"),
    (Rule::Duration, Error, "retention: 1h", "retention: §soon"),
    (Rule::Duration, Error, "retention: 1h", "retention: §200y"),
    (
        Rule::Duration,
        Error,
        GO,
        "go: { from: [a], to: b, claim: §1s }",
    ),
    (
        Rule::NotYet,
        Error,
        STATES,
        "states: { a: { §after: { delay: 1m, event: go } }, b: {}, z: { final: true } }",
    ),
    (
        Rule::NotYet,
        Error,
        GO,
        "go: { from: [a], to: b, §early: { defer: 10m } }",
    ),
    (
        Rule::NotYet,
        Warning,
        GO,
        "go: { from: [a], to: b, interrupted: §defer }",
    ),
    // Names.
    (
        Rule::StraySpace,
        Error,
        GO,
        "go: { from: [§\"a \"], to: b }",
    ),
    (
        Rule::StraySpace,
        Error,
        GO,
        "go: { from: [a], to: b }\n  §\" put\": { from: [a] }",
    ),
    (
        Rule::Duplicate,
        Error,
        GO,
        "go: { from: [a], to: b }\n  §go: { from: [a], to: b }",
    ),
    (
        Rule::Duplicate,
        Error,
        STATES,
        "states: { a: {}, b: {}, z: { final: true }, §a: {} }",
    ),
    (
        Rule::Duplicate,
        Error,
        GO,
        "go: { from: [a], §from: [b], to: b }",
    ),
    (Rule::Duplicate, Error, GO, "go: { from: [a, §a], to: b }"),
    (
        Rule::Duplicate,
        Error,
        GO,
        "go: { from: [a], to: b, digest: { include: [/x, §/x/y] } }",
    ),
    (
        Rule::CaseTwins,
        Error,
        GO,
        "go: { from: [a], to: b }\n  §Go: { from: [a] }",
    ),
    (
        Rule::CaseTwins,
        Error,
        STATES,
        "states: { a: {}, b: {}, z: { final: true }, §Z: { final: true } }",
    ),
    (
        Rule::CaseTwins,
        Error,
        GO,
        "go: { from: [a], to: b, matches: [§Round] }",
    ),
    (
        Rule::TwinEvents,
        Warning,
        GO,
        "go: { from: [a], to: b }\n  §went: { to: b, from: [a] }",
    ),
    (Rule::UnknownName, Error, GO, "go: { from: [§aa], to: b }"),
    (Rule::UnknownName, Error, GO, "go: { from: [a], to: §c }"),
    (
        Rule::UnknownName,
        Error,
        MAKE,
        "make: { creates: §A1, sets: [round] }",
    ),
    (
        Rule::UnknownName,
        Error,
        GO,
        "go: { from: [a], to: b, otherwise: { §zz: reject } }",
    ),
    (
        Rule::UnknownName,
        Error,
        STATES,
        "map: { states: { old: §aa } }\nstates: { a: {}, b: {}, z: { final: true } }",
    ),
    (
        Rule::UnknownName,
        Error,
        STATES,
        "map: { events: { old: §gone } }\nstates: { a: {}, b: {}, z: { final: true } }",
    ),
    (
        Rule::MapInUse,
        Error,
        STATES,
        "map: { states: { §a: b } }\nstates: { a: {}, b: {}, z: { final: true } }",
    ),
    (
        Rule::MapInUse,
        Error,
        STATES,
        "map: { events: { §go: none } }\nstates: { a: {}, b: {}, z: { final: true } }",
    ),
    (
        Rule::Contradiction,
        Error,
        MAKE,
        "make: { creates: a, sets: [round], §from: [a] }",
    ),
    (
        Rule::Contradiction,
        Error,
        MAKE,
        "make: { creates: a, sets: [round], §to: b }",
    ),
    (
        Rule::Contradiction,
        Error,
        GO,
        "go: { from: [a], to: b, otherwise: { §a: reject } }",
    ),
    (
        Rule::Contradiction,
        Error,
        GO,
        "go: { from: [a], to: b, digest: { include: [/x], §exclude: [/y] } }",
    ),
    (
        Rule::Contradiction,
        Error,
        GO,
        "go: { from: [a], to: b, matches: [round], sets: [§round] }",
    ),
    (
        Rule::Contradiction,
        Error,
        GO,
        "go: { from: [a], to: b, sets: [next], clears: [§next] }",
    ),
    (
        Rule::Contradiction,
        Error,
        MAKE,
        "make: { creates: a, sets: [round] }\n  copy: { creates: a, matches: [§round] }",
    ),
    // Ways.
    (
        Rule::NoCreatingEvent,
        Error,
        "events:\n  make: { creates: a, sets: [round] }",
        "§events:\n  make: { from: [a], sets: [round] }",
    ),
    (
        Rule::Unreachable,
        Error,
        STATES,
        "states: { a: {}, b: {}, z: { final: true }, §lost: { final: true } }",
    ),
    (
        Rule::DeadEnd,
        Error,
        STATES,
        "states: { a: {}, b: {}, §z: {} }",
    ),
    (
        Rule::FinalExit,
        Error,
        GO,
        "go: { from: [a], to: b }\n  back: { from: [§z], to: a, matches: [round] }",
    ),
    (
        Rule::NoEffect,
        Warning,
        GO,
        "go: { from: [a], to: b }\n  turn: { from: [a], to: §a }",
    ),
    (
        Rule::UnguardedCycle,
        Warning,
        GO,
        "§go: { from: [a], to: b }\n  back: { from: [b], to: a }",
    ),
    (
        Rule::WaitsInVain,
        Warning,
        GO,
        "go: { from: [a], to: b, otherwise: { §z: too_early } }",
    ),
    // Identity.
    (
        Rule::NeverSet,
        Error,
        GO,
        "go: { from: [a], to: b, matches: [§rund] }",
    ),
    (
        Rule::NeverSet,
        Error,
        GO,
        "go: { from: [a], to: b, clears: [§other] }",
    ),
    (
        Rule::NotSetHere,
        Warning,
        "to: b, matches: [round] }\n  end: { from: [b], to: z, matches: [round] }",
        "to: b, clears: [round] }\n  end: { from: [b], to: z, matches: [§round] }",
    ),
    (
        Rule::WhileHeld,
        Error,
        GO,
        "go: { from: [a], to: b, while_held: §allow }",
    ),
    (
        Rule::WhileHeld,
        Error,
        GO,
        "go: { from: [a], to: b }\n  mark: { from: [a], sets: [x], while_held: §allow }",
    ),
    (
        Rule::WhileHeld,
        Error,
        GO,
        "go: { from: [a], to: b }\n  mark: { from: [a], clears: [round], while_held: §allow }",
    ),
    (
        Rule::WhileHeld,
        Error,
        MAKE,
        "make: { creates: a, sets: [round], while_held: §allow }",
    ),
    // Time.
    (
        Rule::RetryWindow,
        Error,
        GO,
        "go: { from: [a], to: b, upstream: { retry_window: §61m } }",
    ),
    (
        Rule::Forget,
        Error,
        "retention: 1h",
        "retention: 1h\nforget: §1h",
    ),
    (
        Rule::Upstream,
        Warning,
        GO,
        "go: { from: [a], to: b, origin: user, §upstream: { key: /id } }",
    ),
];
