//! What a definition must be as a whole.

mod identity;
mod names;
mod shape;
mod time;

use super::definition::Definition;
use super::finding::Findings;
use super::graph::Graph;

/// Adds what is wrong. Rules that follow ways through the machine are asked only when every name is sound: one wrong name
/// would make half of the states look unreachable.
pub(super) fn lint(definition: &Definition, findings: &mut Findings) {
    names::lint(definition, findings);
    time::lint(definition, findings);
    if findings.has_errors() {
        return;
    }
    let graph = Graph::new(definition);
    shape::lint(definition, &graph, findings);
    identity::lint(definition, &graph, findings);
}
