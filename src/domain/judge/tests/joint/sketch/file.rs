//! A sketch as the file that the judge reads.

use std::collections::BTreeSet;

use super::{Counts, Does, NAMES, Otherwise, Sketch};

impl Sketch {
    /// As a file.
    pub(in super::super) fn file(&self) -> String {
        let state = |at: &usize| self.states[*at].clone().unwrap();
        let list = |all: &BTreeSet<usize>| {
            let all: Vec<String> = all.iter().map(state).collect();
            format!("[{}]", all.join(", "))
        };
        let last = self.states.len() - 1;
        let mut text = format!(
            "kind: order\nversion: {}\nretention: 1h\nstates:\n",
            self.version
        );
        for (at, name) in self.states.iter().enumerate() {
            if let Some(name) = name {
                let is = if at == last { "{ final: true }" } else { "{}" };
                text.push_str(&format!("  {name}: {is}\n"));
            }
        }
        text.push_str("events:\n");
        for event in self.events.iter().flatten() {
            let mut said = match &event.does {
                Does::Creates(to) => vec![format!("creates: {}", state(to))],
                Does::Moves(from, to) => {
                    vec![
                        format!("from: {}", list(from)),
                        format!("to: {}", state(to)),
                    ]
                }
                Does::Stays(from) => vec![format!("from: {}", list(from))],
            };
            for (key, names) in [
                ("matches", &event.matches),
                ("sets", &event.sets),
                ("clears", &event.clears),
            ] {
                let names: Vec<&str> = names.iter().map(|name| NAMES[*name]).collect();
                if !names.is_empty() {
                    said.push(format!("{key}: [{}]", names.join(", ")));
                }
            }
            for (at, otherwise) in &event.otherwise {
                let word = match otherwise {
                    Otherwise::Reject => "reject",
                    Otherwise::Supersede => "supersede",
                    Otherwise::TooEarly => "too_early",
                };
                said.push(format!("otherwise: {{ {}: {word} }}", state(at)));
            }
            let counts = match event.counts {
                Counts::All => None,
                Counts::OnlyX => Some("digest: { include: [/x] }"),
                Counts::AllButX => Some("digest: { exclude: [/x] }"),
                Counts::Nothing => Some("digest: none"),
            };
            let words = [
                event.reruns.then_some("interrupted: rerun"),
                event.while_held.then_some("while_held: allow"),
                (!event.second_key_alerts).then_some("second_key: same"),
                event.other_round_alerts.then_some("other_round: incident"),
                event
                    .keeps_retrying
                    .then_some("upstream: { on_refusal: keeps_retrying }"),
                counts,
            ];
            said.extend(words.into_iter().flatten().map(str::to_owned));
            said.push(format!("origin: {}", event.origin));
            text.push_str(&format!("  {}: {{ {} }}\n", event.name, said.join(", ")));
        }
        if !self.map_states.is_empty() || !self.map_events.is_empty() {
            let states = self
                .map_states
                .iter()
                .map(|(was, now)| format!("{was}: {now}"));
            let events = self
                .map_events
                .iter()
                .map(|(was, now)| format!("{was}: {}", now.as_deref().unwrap_or("none")));
            text.push_str(&format!(
                "map: {{ states: {{ {} }}, events: {{ {} }} }}\n",
                states.collect::<Vec<_>>().join(", "),
                events.collect::<Vec<_>>().join(", ")
            ));
        }
        text
    }
}
