//! `machine`: checks, shows, draws and compares machine files, and puts them in force.

mod draw;
mod files;
mod in_force;
mod show;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use self::files::MachineFile;
use super::exit::{self, Exit};
use super::output;
use super::trouble::Trouble;
use crate::domain::ids::Kind;
use crate::domain::machine::{Machine, Place, Severity, difference};

/// What to do with machine files.
#[derive(Debug, Subcommand)]
pub(super) enum MachineCommand {
    /// Say what is wrong: one finding a line, with file, line, column, rule and what to do
    #[command(after_help = exit::of_files())]
    Check(CheckArgs),
    /// Show what becomes of each event in each state
    #[command(after_help = exit::of_files())]
    Show(FileArgs),
    /// Draw the states and moves
    #[command(after_help = exit::of_files())]
    Graph(GraphArgs),
    /// Say what changed, and whether the new file may follow the old one
    #[command(after_help = exit::of_files())]
    Diff(DiffArgs),
    /// Put machine files in force, over the sidecar's admin socket: only a higher version installs
    #[command(after_help = exit::of_a_question(&[]))]
    Apply(in_force::ApplyArgs),
    /// List the machines in force
    #[command(after_help = exit::of_a_question(&[]))]
    List(in_force::ListArgs),
    /// Print the file that is in force for a kind, or one of its versions
    #[command(after_help = exit::of_a_question(&[]))]
    Get(in_force::GetArgs),
    /// List every version of a kind's machine that was ever in force
    #[command(after_help = exit::of_a_question(&[]))]
    History(in_force::HistoryArgs),
}

/// Files to check.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// Machine files, or directories whose *.yaml and *.yml files are meant; `-`: what is piped in
    #[arg(required = true)]
    paths: Vec<PathBuf>,
}

/// One file.
#[derive(Debug, Args)]
pub(super) struct FileArgs {
    /// The machine file; `-`: what is piped in, such as by `machine get KIND`
    file: PathBuf,
}

/// One file and a way to draw it.
#[derive(Debug, Args)]
pub(super) struct GraphArgs {
    /// The machine file; `-`: what is piped in, such as by `machine get KIND`
    file: PathBuf,
    /// The language of the drawing
    #[arg(long, env = "FENCEPOST_FORMAT", value_enum, default_value_t = Format::Mermaid)]
    format: Format,
}

/// A language that drawings are written in.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// For Markdown
    Mermaid,
    /// For Graphviz
    Dot,
}

/// Two files.
#[derive(Debug, Args)]
pub(super) struct DiffArgs {
    /// The file of the version before; `-`: what is piped in, such as by `machine get KIND`
    old: PathBuf,
    /// The file that is to follow it; `-` for one of the two
    new: PathBuf,
}

impl MachineCommand {
    pub(super) async fn run(&self) -> Result<Exit, Trouble> {
        match self {
            Self::Check(args) => args.run(),
            Self::Show(args) => with_machine(&args.file, show::text),
            Self::Graph(args) => with_machine(&args.file, |machine| match args.format {
                Format::Mermaid => draw::mermaid(machine),
                Format::Dot => draw::dot(machine),
            }),
            Self::Diff(args) => args.run(),
            Self::Apply(args) => args.run().await,
            Self::List(args) => args.run().await,
            Self::Get(args) => args.run().await,
            Self::History(args) => args.run().await,
        }
    }
}

impl CheckArgs {
    fn run(&self) -> Result<Exit, Trouble> {
        let Checked { said, sound, .. } = check(&self.paths)?;
        output::write(&said)?;
        Ok(if sound { Exit::Good } else { Exit::Invalid })
    }
}

/// What is said of files, line by line, and those that are sound.
struct Checked {
    said: String,
    files: Vec<MachineFile>,
    /// Whether all are.
    sound: bool,
}

fn check(paths: &[PathBuf]) -> Result<Checked, Trouble> {
    let mut said = String::new();
    let mut sound = true;
    let mut files = Vec::new();
    let mut kinds: BTreeMap<Kind, (String, Place)> = BTreeMap::new();
    for path in files::named(paths)? {
        let file = MachineFile::read(&path)?;
        said.push_str(&file.findings());
        let Some(machine) = &file.reading.machine else {
            sound = false;
            continue;
        };
        let kind = &machine.definition().kind;
        if let Some((other, place)) = kinds.get(&kind.value) {
            sound = false;
            said.push_str(&format!(
                    "{}:{}: {}[duplicate]: kind {} has a machine at {other}:{place} already; fix: keep one of \
                     them here\n",
                    file.name,
                    kind.place,
                    Severity::Error,
                    kind.value,
                ));
            continue;
        }
        kinds.insert(kind.value.clone(), (file.name.clone(), kind.place));
        said.push_str(&format!("{}: good: {}\n", file.name, show::title(machine)));
        files.push(file);
    }
    Ok(Checked { said, files, sound })
}

impl DiffArgs {
    fn run(&self) -> Result<Exit, Trouble> {
        if self.old == self.new && self.old.as_os_str() == "-" {
            return Err(Trouble::usage(
                "standard input can be one of the two files only: name the other",
            ));
        }
        let (old, new) = (MachineFile::read(&self.old)?, MachineFile::read(&self.new)?);
        output::say(&(old.findings() + &new.findings()));
        let (Some(was), Some(is)) = (&old.reading.machine, &new.reading.machine) else {
            return Ok(Exit::Invalid);
        };
        let difference = difference(was, is);
        let mut said = format!("{} → {}\n", show::title(was), show::title(is));
        for change in &difference.changes {
            said.push_str(&format!("{change}\n"));
        }
        for finding in &difference.findings {
            said.push_str(&format!("{}:{finding}\n", new.name));
        }
        let may = difference.findings.is_empty();
        said.push_str(match (may, was.hash() == is.hash()) {
            (_, true) => "the two say the same\n",
            (true, false) => "the new one may follow the old one\n",
            (false, false) => "the new one may not follow the old one\n",
        });
        output::write(&said)?;
        Ok(if may { Exit::Good } else { Exit::Invalid })
    }
}

/// Findings go to standard error, so that what is drawn or shown can be piped on.
fn with_machine(path: &Path, text: impl Fn(&Machine) -> String) -> Result<Exit, Trouble> {
    let file = MachineFile::read(path)?;
    output::say(&file.findings());
    match &file.reading.machine {
        Some(machine) => output::write(&text(machine)).map(|()| Exit::Good),
        None => Ok(Exit::Invalid),
    }
}
