//! What the orders and seats of the scenes are judged by: the files of `machines/`, or else the requests themselves.

use crate::domain::ids::Kind;
use crate::domain::machine::Machine;
use crate::proto::v1::{Intent, Move, intent::Content};

/// The state that a resource without one is taken to be in, where no machine says how it is created.
const NOTHING_YET: &str = "new";

/// A file of the example machines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Example {
    /// Its path in the project.
    pub(super) name: &'static str,
    /// Its content.
    pub(super) source: &'static str,
}

/// The machines that scenes are played under.
pub(super) const EXAMPLES: [Example; 2] = [
    Example {
        name: "machines/order.yaml",
        source: include_str!("../../../machines/order.yaml"),
    },
    Example {
        name: "machines/seat.yaml",
        source: include_str!("../../../machines/seat.yaml"),
    },
];

/// What orders and seats are judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Law {
    /// The examples, under the kinds that they name: the sidecar is the demo's own.
    AsFiled,
    /// The examples, under kinds of the demo's own: the sidecar is somebody else's.
    UnderOwnKinds,
    /// Each request says from where to where.
    Requests,
}

impl Law {
    /// The kind of an order or a seat. Where machines could not be applied it is another one, for a machine that an earlier
    /// demo has left there would judge it.
    pub(super) fn kind(self, name: &str) -> String {
        match self {
            Self::AsFiled => name.to_owned(),
            Self::UnderOwnKinds => format!("demo-{name}"),
            Self::Requests => format!("demo-plain-{name}"),
        }
    }

    /// Whether it is a machine.
    pub(super) fn is_machine(self) -> bool {
        match self {
            Self::AsFiled | Self::UnderOwnKinds => true,
            Self::Requests => false,
        }
    }

    /// What the sender of a callback is answered that is refused. The example says of the payment provider that it sends
    /// again whatever it is not told to be settled; of a request's sender nothing is known.
    pub(super) fn status_of_a_no(self) -> u16 {
        if self.is_machine() { 200 } else { 409 }
    }

    /// The step in the words of the law.
    pub(super) fn intent(self, step: Step) -> Intent {
        let Step {
            key,
            event,
            way,
            matches,
            sets,
            content,
        } = step;
        let named = |pair: Option<Value>| pair.map(|(name, value)| (name.to_owned(), value));
        let intent = Intent {
            operation_id: key,
            content: Some(content),
            ..Intent::default()
        };
        if self.is_machine() {
            return Intent {
                event: event.to_owned(),
                identity: named(matches).into_iter().chain(named(sets)).collect(),
                ..intent
            };
        }
        let (from, to) = match way {
            Way::Creates(to) => (NOTHING_YET, to),
            Way::Moves(from, to) => (from, to),
            Way::Stays(at) => (at, ""),
        };
        Intent {
            identity: named(matches).into_iter().collect(),
            from_states: vec![from.to_owned()],
            r#move: Some(Move {
                to_state: to.to_owned(),
                initial_state: NOTHING_YET.to_owned(),
                sets: named(sets).into_iter().collect(),
            }),
            ..intent
        }
    }
}

/// A named value that proves a round.
pub(super) type Value = (&'static str, String);

/// One step of an order or a seat, as both kinds of law must be told it.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The operation's id.
    pub(super) key: String,
    /// What the machine calls it.
    pub(super) event: &'static str,
    /// Where it leads, if no machine says so.
    pub(super) way: Way,
    /// The round that it speaks of.
    pub(super) matches: Option<Value>,
    /// The round that it begins.
    pub(super) sets: Option<Value>,
    /// What it says.
    pub(super) content: Content,
}

/// From where to where.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// It creates the resource in this state.
    Creates(&'static str),
    /// From one state to another.
    Moves(&'static str, &'static str),
    /// It stays where it is.
    Stays(&'static str),
}

/// The same machine for another kind. The name is found where the parser found it, and what comes out is read again.
pub(super) fn renamed(source: &str, kind: &str) -> Option<String> {
    let machine = Machine::read(source.as_bytes()).machine?;
    let named = &machine.definition().kind;
    let mut lines: Vec<String> = source.split('\n').map(str::to_owned).collect();
    let line = lines.get_mut(named.place.line.checked_sub(1)?)?;
    let before = named.place.column.checked_sub(1)?;
    let head: String = line.chars().take(before).collect();
    let rest: String = line.chars().skip(before).collect();
    let tail = rest.strip_prefix(named.value.as_str())?;
    *line = format!("{head}{kind}{tail}");
    let source = lines.join("\n");
    let read = Machine::read(source.as_bytes()).machine?;
    (read.definition().kind.value == Kind::parse(kind).ok()?).then_some(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_is_renamed_where_its_kind_stands_and_nowhere_else() {
        for Example { name, source } in EXAMPLES {
            let other = renamed(source, "demo-thing").unwrap();
            let changed: Vec<_> = source
                .lines()
                .zip(other.lines())
                .filter(|(a, b)| a != b)
                .collect();
            assert_eq!(changed.len(), 1, "{name}: {changed:?}");
            assert!(changed[0].1.starts_with("kind: demo-thing"), "{changed:?}");
            assert_eq!(source.lines().count(), other.lines().count());
        }
        let odd = "version: 1\nretention: 1h\nstates: { kind: {}, gone: { final: true } }\n\
                   events: { kind: { creates: kind }, end: { from: [kind], to: gone } }\nkind:   kind # kind: kind\n";
        let other = renamed(odd, "lamp").unwrap();
        assert_eq!(other, odd.replace("kind:   kind #", "kind:   lamp #"));
        assert_eq!(renamed(odd, "no kind"), None);
        assert_eq!(renamed("kind: [", "lamp"), None);
    }

    #[test]
    fn each_law_has_kinds_of_its_own() {
        let kinds = [Law::AsFiled, Law::UnderOwnKinds, Law::Requests].map(|law| law.kind("order"));
        assert_eq!(kinds, ["order", "demo-order", "demo-plain-order"]);
    }
}
