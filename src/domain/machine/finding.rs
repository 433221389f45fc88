//! What is wrong with a machine file: where, by which rule, and what to do.

use std::fmt;

use super::place::Place;

/// Whether a file with the finding may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It must not.
    Error,
    /// It may; somebody should look.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident = $name:literal,)*) => {
        /// The rule that a finding breaks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule { $($(#[$doc])* $rule,)* }

        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Self] = &[$(Self::$rule,)*];

            /// Its name, as findings show it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$rule => $name,)* }
            }
        }
    };
}

rules! {
    /// It is not YAML, or uses a part of YAML that machine files do without.
    Yaml = "yaml",
    /// Larger, longer or more than a named limit.
    Limit = "limit",
    /// A key that means nothing here.
    UnknownKey = "unknown-key",
    /// Something that must be said is not.
    Missing = "missing",
    /// A value of the wrong sort.
    Value = "value",
    /// A duration without a unit, out of bounds or not readable.
    Duration = "duration",
    /// A name or word with white space around it.
    StraySpace = "stray-space",
    /// Said twice.
    Duplicate = "duplicate",
    /// Two names that differ in upper and lower case only.
    CaseTwins = "case-twins",
    /// Two events under different names that say the same.
    TwinEvents = "twin-events",
    /// A name that is declared nowhere.
    UnknownName = "unknown-name",
    /// Two statements that cannot both hold.
    Contradiction = "contradiction",
    /// Needs a part of Fencepost that does not exist yet.
    NotYet = "not-yet",
    /// No event creates a resource.
    NoCreatingEvent = "no-creating-event",
    /// No way leads to the state.
    Unreachable = "unreachable",
    /// A final state that an event leaves.
    FinalExit = "final-exit",
    /// A state that no event leaves and that is not final.
    DeadEnd = "dead-end",
    /// An event that changes nothing and yet begins a new visit.
    NoEffect = "no-effect",
    /// A circle of moves that an old message could go round again.
    UnguardedCycle = "unguarded-cycle",
    /// An identity name that no event sets.
    NeverSet = "never-set",
    /// An identity value that cannot have been set where it is compared.
    NotSetHere = "not-set-here",
    /// An event allowed while held that does more than it may.
    WhileHeld = "while-held",
    /// `otherwise` that makes a sender wait for what never comes.
    WaitsInVain = "waits-in-vain",
    /// The sender asks again after Fencepost has forgotten.
    RetryWindow = "retry-window",
    /// Resources are forgotten before their operations.
    Forget = "forget",
    /// An upstream contract on an event that has no such sender.
    Upstream = "upstream",
    /// The version does not rise.
    Version = "version",
    /// A state or event was dropped and not mapped.
    Unmapped = "unmapped",
    /// `map` names what this version still has.
    MapInUse = "map-in-use",
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub place: Place,
    /// How bad it is.
    pub severity: Severity,
    /// By which rule.
    pub rule: Rule,
    /// What is wrong, as a sentence without its point.
    pub what: String,
    /// What to do.
    pub fix: String,
}

/// `line:column: severity[rule]: what; fix: …`; the name of the file goes before it.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            severity,
            rule,
            what,
            fix,
        } = self;
        write!(f, "{place}: {severity}[{rule}]: {what}; fix: {fix}")
    }
}

/// Most findings that are told of one file; more help nobody.
pub const FINDINGS_MAX: usize = 200;

/// Collects findings.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    all: Vec<Finding>,
    left_out: usize,
    errors: usize,
    doubt: Doubt,
}

/// What cannot be followed, for what it rests on has an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Doubt {
    /// Something of a state, or of what an event does, could not be read.
    pub(super) unread: bool,
    /// A state is named that is not declared.
    pub(super) undeclared: bool,
}

impl Findings {
    pub(super) fn error(
        &mut self,
        rule: Rule,
        place: Place,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.add(Severity::Error, rule, place, what.into(), fix.into());
    }

    pub(super) fn warning(
        &mut self,
        rule: Rule,
        place: Place,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.add(Severity::Warning, rule, place, what.into(), fix.into());
    }

    fn add(&mut self, severity: Severity, rule: Rule, place: Place, what: String, fix: String) {
        self.errors += usize::from(severity == Severity::Error);
        if self.is_full() {
            self.left_out += 1;
            return;
        }
        self.all.push(Finding {
            place,
            severity,
            rule,
            what: harmless(what),
            fix: harmless(fix),
        });
    }

    /// Reads something that other rules rest on.
    pub(super) fn relied_on<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.errors;
        let value = read(self);
        self.doubt.unread |= self.errors > before;
        value
    }

    /// Notes that a state is named that is not declared.
    pub(super) fn undeclared(&mut self) {
        self.doubt.undeclared = true;
    }

    /// What cannot be followed.
    pub(super) fn doubt(&self) -> Doubt {
        self.doubt
    }

    /// Whether further findings are only counted.
    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= FINDINGS_MAX
    }

    /// Whether one of them forbids the use of the file.
    pub(super) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// All of them, in the order of the file.
    pub(super) fn into_sorted(mut self) -> Vec<Finding> {
        self.all
            .sort_by_key(|finding| (finding.place, finding.rule));
        let last = self.all.last().filter(|_| self.left_out > 0);
        if let Some(last) = last.map(|last| last.place) {
            self.all.push(Finding {
                place: last,
                severity: Severity::Warning,
                rule: Rule::Limit,
                what: format!("{} more findings are left out", self.left_out),
                fix: "mend these first".to_owned(),
            });
        }
        self.all
    }
}

/// A sentence on one line that cannot command a terminal, even if a text from the file went into it as it came.
fn harmless(sentence: String) -> String {
    if sentence.contains(char::is_control) {
        let escape = |c: char| {
            if c.is_control() {
                c.escape_default().to_string()
            } else {
                c.into()
            }
        };
        return sentence.chars().map(escape).collect();
    }
    sentence
}

/// Most characters of a text from a file that a finding repeats.
const SHOWN_CHARACTERS_MAX: usize = 40;

/// A text from a file, quoted, escaped and cut, so that it can neither flood nor command a terminal.
pub(super) fn quoted(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS_MAX) {
        None => format!("{text:?}"),
        Some((cut, _)) => format!("{:?}…", text.get(..cut).unwrap_or_default()),
    }
}
