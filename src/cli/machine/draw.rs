//! A machine as a drawing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::domain::ids::StateName;
use crate::domain::machine::{Definition, Effect, Machine, WhileHeld};

/// Events between the same two states share an arrow: who reads a drawing follows states.
struct Arrows<'a> {
    /// From where to where, and the events; `None`: from nowhere.
    all: BTreeMap<(Option<usize>, usize), Vec<String>>,
    states: Vec<&'a StateName>,
}

impl<'a> Arrows<'a> {
    fn of(definition: &'a Definition) -> Self {
        let states: Vec<&StateName> = definition
            .states
            .iter()
            .map(|state| &state.name.value)
            .collect();
        let at = |name: &StateName| states.iter().position(|state| *state == name);
        let mut all: BTreeMap<(Option<usize>, usize), Vec<String>> = BTreeMap::new();
        for event in &definition.events {
            let name = event.name.value.as_str();
            let mut arrow = |from: Option<usize>, to: Option<usize>, label: String| {
                if let Some(to) = to {
                    all.entry((from, to)).or_default().push(label);
                }
            };
            match &event.effect {
                Effect::Creates(to) => arrow(None, at(&to.value), name.to_owned()),
                Effect::Moves { from, to } => {
                    for from in from {
                        arrow(at(&from.value), at(&to.value), name.to_owned());
                    }
                }
                Effect::Stays { from } => {
                    let label = match event.while_held.value {
                        WhileHeld::Allow => format!("({name}, held too)"),
                        WhileHeld::Busy => format!("({name})"),
                    };
                    for from in from {
                        arrow(at(&from.value), at(&from.value), label.clone());
                    }
                }
            }
        }
        Self { all, states }
    }
}

/// Mermaid, for Markdown. Names are given as labels, so that none is taken for a word of the language.
pub(super) fn mermaid(machine: &Machine) -> String {
    let definition = machine.definition();
    let arrows = Arrows::of(definition);
    let mut text = String::from("stateDiagram-v2\n");
    // Writing to a string cannot fail.
    for (at, name) in arrows.states.iter().enumerate() {
        let _ = writeln!(text, "    state \"{name}\" as s{at}");
    }
    for ((from, to), labels) in &arrows.all {
        let from = from.map_or_else(|| "[*]".to_owned(), |from| format!("s{from}"));
        let _ = writeln!(text, "    {from} --> s{to} : {}", labels.join("<br/>"));
    }
    for (at, state) in definition.states.iter().enumerate() {
        if state.is_final {
            let _ = writeln!(text, "    s{at} --> [*]");
        }
    }
    text
}

/// DOT, for Graphviz.
pub(super) fn dot(machine: &Machine) -> String {
    let definition = machine.definition();
    let arrows = Arrows::of(definition);
    let mut text = format!("digraph \"{}\" {{\n", definition.kind.value);
    text.push_str("    rankdir=LR;\n");
    text.push_str("    node [shape=box, style=rounded, fontname=\"sans-serif\"];\n");
    text.push_str("    edge [fontname=\"sans-serif\", fontsize=11];\n");
    if arrows.all.keys().any(|(from, _)| from.is_none()) {
        text.push_str("    start [shape=point, width=0.15];\n");
    }
    // Writing to a string cannot fail.
    for (at, state) in definition.states.iter().enumerate() {
        let ring = if state.is_final {
            ", peripheries=2"
        } else {
            ""
        };
        let _ = writeln!(text, "    s{at} [label=\"{}\"{ring}];", state.name.value);
    }
    for ((from, to), labels) in &arrows.all {
        let from = from.map_or_else(|| "start".to_owned(), |from| format!("s{from}"));
        let _ = writeln!(
            text,
            "    {from} -> s{to} [label=\"{}\"];",
            labels.join("\\n")
        );
    }
    text.push_str("}\n");
    text
}
