//! Reading the command line: what variables say counts as if it stood there, and what cannot be read is told with its place.

use std::ffi::{OsStr, OsString};

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory, Error, FromArgMatches};

use super::Cli;

/// Reads it. The error is one for people.
pub(super) fn read(words: &[OsString]) -> Result<Cli, Error> {
    let mut command = Cli::command().mut_subcommands(tolerant);
    let read = command
        .try_get_matches_from_mut(words)
        .and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    read.map_err(|error| {
        let error = error.format(&mut command);
        told(error, &mut command, words)
    })
}

fn tolerant(command: Command) -> Command {
    command
        .mut_args(without_empty_variable)
        .mut_subcommands(tolerant)
}

/// A variable that is set but empty counts as absent, as it does for `serve`: that is how templates say "not set". So does
/// the `false` of a switch, which would else stand against the switches that it excludes.
fn without_empty_variable(argument: Arg) -> Arg {
    let switch = !argument.get_action().takes_values();
    let says_nothing = |value: OsString| value.is_empty() || switch && value == "false";
    let set = argument.get_env().and_then(std::env::var_os);
    if set.is_some_and(says_nothing) {
        argument.env(Resettable::Reset)
    } else {
        argument
    }
}

/// With the usage as `--help` shows it, and the place of what is no text.
fn told(mut error: Error, command: &mut Command, words: &[OsString]) -> Error {
    command.build();
    let meant = meant(command, words);
    if error.kind() == ErrorKind::InvalidUtf8 {
        return meant.error(ErrorKind::InvalidUtf8, no_text(words));
    }
    // The library's own shows the flags that were given as if they were required, and no other.
    if error.get(ContextKind::Usage).is_some() {
        let usage = meant.render_usage();
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    }
    error
}

/// The command that the words begin with.
fn meant<'c>(root: &'c mut Command, words: &[OsString]) -> &'c mut Command {
    let mut command = root;
    for word in words.iter().skip(1) {
        let name = word.to_str().unwrap_or_default();
        if command.find_subcommand(name).is_none() {
            break;
        }
        command = command
            .find_subcommand_mut(name)
            .expect("it was found a moment ago");
    }
    command
}

fn no_text(words: &[OsString]) -> String {
    // What follows is the command of `exec`, which may be anything.
    let ours = words.iter().take_while(|word| *word != "--");
    let place = ours.enumerate().skip(1);
    let mut place = place.filter(|(_, word)| word.to_str().is_none());
    match place.next() {
        Some((at, word)) => format!(
            "argument {at}, {}, is not UTF-8; bytes that are no text can be given as @FILE or - where a flag takes them",
            shown(word)
        ),
        None => {
            let set = std::env::vars_os().find(|(name, value)| {
                let ours = name
                    .to_str()
                    .is_some_and(|name| name.starts_with("FENCEPOST_"));
                ours && value.to_str().is_none()
            });
            let name = set.map_or_else(|| "a variable".to_owned(), |(name, _)| shown(&name));
            format!("the value of {name} is not UTF-8")
        }
    }
}

fn shown(word: &OsStr) -> String {
    format!("`{}`", super::trouble::plain(&word.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    fn refused(words: &[&[u8]]) -> String {
        let words: Vec<OsString> = words
            .iter()
            .map(|word| OsString::from_vec(word.to_vec()))
            .collect();
        read(&words).unwrap_err().to_string()
    }

    #[test]
    fn a_refusal_shows_optional_flags_as_optional_whatever_was_given() {
        for (line, usage) in [
            (
                "fencepost transition order --operation k --once",
                "fencepost transition [OPTIONS] <KIND> <ID>",
            ),
            (
                "fencepost admin start-timeline --above 5",
                "fencepost admin start-timeline [OPTIONS] --reason <TEXT>",
            ),
            (
                "fencepost watch a b --timeline-id t",
                "fencepost watch [OPTIONS] <KIND> <ID>",
            ),
            (
                "fencepost incidents show --wrong",
                "fencepost incidents show [OPTIONS] <ID>",
            ),
            ("fencepost nonsense", "fencepost <COMMAND>"),
        ] {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let said = refused(&words);
            assert!(said.contains(&format!("Usage: {usage}\n")), "{said}");
        }
    }

    #[test]
    fn what_is_no_text_is_named_by_its_place() {
        let said = refused(&[b"fencepost", b"inspect", b"order", b"\xff1"]);
        assert!(
            said.contains("argument 3, `\u{fffd}1`, is not UTF-8"),
            "{said}"
        );
    }
}
