//! Machines at random, as files.

use std::collections::BTreeSet;

use proptest::prelude::*;

/// An event in the making: where it starts, where it leads, and which of the two names it matches, sets and clears.
#[derive(Clone, Debug)]
pub(super) struct Sketch {
    from: Vec<usize>,
    to: Option<usize>,
    names: [u8; 2],
    otherwise: Option<(usize, usize)>,
}

pub(super) fn sketch() -> impl Strategy<Value = Sketch> {
    let otherwise = prop::option::weighted(0.2, (0..4_usize, 0..3_usize));
    (
        prop::collection::vec(0..4_usize, 1..3),
        prop::option::weighted(0.7, 0..4_usize),
        [0..5_u8, 0..5_u8],
        otherwise,
    )
        .prop_map(|(from, to, names, otherwise)| Sketch {
            from,
            to,
            names,
            otherwise,
        })
}

pub(super) const NAMES: [&str; 2] = ["a", "b"];

/// A file of four states in a row, the last one final, and further events at random.
pub(super) fn file(sketches: &[Sketch], version: u32, renamed: bool) -> String {
    let state = |at: usize| {
        if at == 1 && renamed {
            "t1".to_owned()
        } else {
            format!("s{at}")
        }
    };
    let mut text = format!(
        "kind: order\nversion: {version}\nretention: 1h\nstates:\n  s0: {{}}\n  {}: {{}}\n  s2: {{}}\n  s3: {{ final: \
         true }}\nevents:\n  make: {{ creates: s0, sets: [a] }}\n  set: {{ from: [s0, {}, s2], sets: [b] }}\n",
        state(1),
        state(1)
    );
    for at in 0..3 {
        text.push_str(&format!(
            "  go{at}: {{ from: [{}], to: {} }}\n",
            state(at),
            state(at + 1)
        ));
    }
    for (at, sketch) in sketches.iter().enumerate() {
        // Nothing leaves the last state.
        let from: BTreeSet<usize> = sketch.from.iter().map(|from| from % 3).collect();
        let listed: Vec<String> = from.iter().map(|from| state(*from)).collect();
        text.push_str(&format!("  e{at}: {{ from: [{}]", listed.join(", ")));
        if let Some(to) = sketch.to {
            text.push_str(&format!(", to: {}", state(to)));
        }
        let chosen = |wanted: &[u8]| {
            let chosen = NAMES.iter().zip(sketch.names);
            let chosen = chosen.filter(|(_, does)| wanted.contains(does));
            chosen.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
        };
        for (key, does) in [
            ("matches", &[1, 4][..]),
            ("sets", &[2]),
            ("clears", &[3, 4]),
        ] {
            let chosen = chosen(does);
            if !chosen.is_empty() {
                text.push_str(&format!(", {key}: [{chosen}]"));
            }
        }
        if let Some((other, said)) = sketch.otherwise.filter(|(other, _)| !from.contains(other)) {
            let said = ["reject", "supersede", "too_early"][said];
            text.push_str(&format!(", otherwise: {{ {}: {said} }}", state(other)));
        }
        text.push_str(" }\n");
    }
    if renamed {
        text.push_str("map: { states: { s1: t1 } }\n");
    }
    text
}
