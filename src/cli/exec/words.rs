//! What a sidecar says of a request's fields, in the words of the command line that the request was made from.

use tonic::Status;
use tonic_types::StatusExt as _;

use super::super::exit::Exit;
use super::super::trouble::{Trouble, plain};

/// The reason that a sidecar gives where an event is named and the kind has no machine.
const NO_MACHINE: &str = "UNKNOWN_KIND";

/// Puts what stood on the command line in the place of the field that it became.
pub(super) fn of_the_command_line(status: &Status, trouble: Trouble) -> Trouble {
    if trouble.exit != Exit::Invalid {
        return trouble;
    }
    let reason = status.get_details_error_info().map(|info| info.reason);
    if reason.as_deref() == Some(NO_MACHINE) {
        return Trouble::invalid(
            "not run, for the request can never work: the kind has no machine in force, and so no events: put one in force (fencepost machine apply FILE), or leave \
             out --event",
        );
    }
    let violations = status.get_details_bad_request();
    let violation = violations.and_then(|all| all.field_violations.into_iter().next());
    let said = violation.and_then(|violation| {
        let named = named(&violation.field)?;
        Some(format!(
            "not run, for the request can never work: {named} {}",
            plain(&violation.description)
        ))
    });
    match said {
        Some(said) => Trouble::invalid(said),
        None => trouble,
    }
}

/// How the command line calls it. `None`: nothing there became this field.
fn named(field: &str) -> Option<String> {
    let outer = field.split(['[', '"']).next().unwrap_or_default();
    let named = match outer {
        "resource.kind" => "KIND (resource.kind)",
        "resource.id" => "ID (resource.id)",
        "also" => "--also",
        "ttl" => "--ttl",
        "holder" => "--holder",
        "wait" => "--wait",
        "intent.operation_id" => "the KEY of --once",
        "intent.event" | "intent.move" => "--event",
        outer if outer.starts_with("intent.identity") => {
            // The name of a value stands behind it.
            let name = field.strip_prefix("intent.identity").unwrap_or_default();
            return Some(plain(&format!("--identity{}", spaced(name))));
        }
        _ => return None,
    };
    Some(named.to_owned())
}

/// The name in `["name"]` or `.name`, with a space before it.
fn spaced(name: &str) -> String {
    let bare = name.trim_matches(['.', '[', ']', '"']);
    if bare.is_empty() {
        String::new()
    } else {
        format!(" {bare}")
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;
    use tonic_types::ErrorDetails;

    use super::*;

    fn said(field: &str) -> String {
        let mut details = ErrorDetails::new();
        details.add_bad_request_violation(field, "is too long");
        let status = Status::with_error_details(Code::InvalidArgument, "wire", details);
        of_the_command_line(&status, Trouble::from_status("here", &status)).message
    }

    #[test]
    fn a_field_is_called_what_it_was_on_the_command_line() {
        for (field, told) in [
            ("resource.kind", "KIND (resource.kind) is too long"),
            ("ttl", "--ttl is too long"),
            ("also[3].id", "--also is too long"),
            ("intent.operation_id", "the KEY of --once is too long"),
            ("intent.identity", "--identity is too long"),
            ("intent.identity[\"batch\"]", "--identity batch is too long"),
        ] {
            assert_eq!(
                said(field),
                format!("not run, for the request can never work: {told}")
            );
        }
        // What the command line does not name is told as it came.
        assert!(said("request_id").ends_with("wire"));
        let other = Status::failed_precondition("wire");
        let trouble = Trouble::from_status("here", &other);
        assert!(
            of_the_command_line(&other, trouble)
                .message
                .ends_with("wire")
        );
    }
}
