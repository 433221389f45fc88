//! What a definition must be as a whole.

mod identity;
mod names;
mod shape;
mod time;

use super::definition::Definition;
use super::finding::{Doubt, Findings};
use super::graph::Graph;

/// Adds what is wrong, all that can be told. Rules that follow ways through the machine are asked only when every state and what each
/// event does could be read, and every name of a state is declared: one wrong name would make half of the states look unreachable.
/// Those that look at what events do with identity are asked when all of it could be read; those of one event alone, always.
pub(super) fn lint(definition: &Definition, findings: &mut Findings) {
    names::lint(definition, findings);
    time::lint(definition, findings);
    let graph = Graph::new(definition);
    shape::lint_events(definition, findings);
    identity::lint_events(definition, findings);
    let Doubt { unread, undeclared } = findings.doubt();
    if unread {
        return;
    }
    let ways = if undeclared {
        Ways::Uncertain
    } else {
        shape::lint_ways(definition, &graph, findings);
        Ways::Certain
    };
    identity::lint_values(definition, &graph, ways, findings);
}

/// Whether it is certain where the moves lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ways {
    Certain,
    Uncertain,
}
