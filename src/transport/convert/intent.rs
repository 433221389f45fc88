//! What a message asks for.

use std::collections::BTreeMap;

use crate::domain::digest::{Content, Given};
use crate::domain::ids::{IdentityName, IdentityValue, OperationId, StateName};
use crate::domain::machine::DigestRule;
use crate::domain::request::{
    FROM_STATES_MAX, IDENTITY_NAMES_MAX, Identity, Intent, Interrupted, Move,
};
use crate::engine::Fault;
use crate::proto::v1 as pb;
use crate::proto::v1::intent::Content as Wire;

use super::{at, present, refused, shown, span};

/// Reads an intent.
pub(super) fn from_wire(intent: pb::Intent) -> Result<Intent, Fault> {
    let operation = at(
        "intent.operation_id",
        OperationId::parse(&intent.operation_id),
    )?;
    let identity = identity("intent.identity", &intent.identity)?;
    let from = from_states(&intent.from_states)?;
    let movement = intent.r#move.map(movement).transpose()?;
    if movement.is_none() && !from.is_empty() {
        return Err(refused(
            "intent.from_states",
            "must be absent without a move: where no state changes, none is judged",
        ));
    }
    let made_ms = span::moment("intent.operation_time", intent.operation_time)?;
    // Last, for it is the only part that takes time.
    let content = content(intent.content.as_ref(), &DigestRule::Whole)?;
    Ok(Intent {
        operation,
        identity,
        digest: content.digest,
        beside: content.beside,
        from,
        movement,
        made_ms,
        interrupted: if intent.rerun_if_interrupted {
            Interrupted::Rerun
        } else {
            Interrupted::Ask
        },
    })
}

/// Reads the content under the rule that says what of it counts.
fn content(content: Option<&Wire>, rule: &DigestRule) -> Result<Content, Fault> {
    let (field, given) = match content {
        Some(Wire::Json(text)) => ("intent.json", Given::Json(text)),
        Some(Wire::Raw(bytes)) => ("intent.raw", Given::Raw(bytes)),
        Some(Wire::Digest(digest)) => ("intent.digest", Given::Digest(digest)),
        None => {
            return Err(refused(
                "intent.content",
                "is required: json, raw or digest; an empty raw means that the message has none",
            ));
        }
    };
    at(field, Content::read(given, rule))
}

fn identity(field: &str, values: &BTreeMap<String, String>) -> Result<Identity, Fault> {
    if values.len() > IDENTITY_NAMES_MAX {
        return Err(refused(
            field,
            format!(
                "has {} names; the limit is {IDENTITY_NAMES_MAX}",
                values.len()
            ),
        ));
    }
    let mut identity = Identity::new();
    for (name, value) in values {
        let path = format!("{field}[\"{}\"]", shown(name));
        let parsed_name = IdentityName::parse(name)
            .map_err(|invalid| refused(path.as_str(), format!("has a name that {invalid}")))?;
        identity.insert(parsed_name, at(&path, IdentityValue::parse(value))?);
    }
    Ok(identity)
}

fn from_states(states: &[String]) -> Result<Vec<StateName>, Fault> {
    if states.len() > FROM_STATES_MAX {
        return Err(refused(
            "intent.from_states",
            format!(
                "has {} states; the limit is {FROM_STATES_MAX}",
                states.len()
            ),
        ));
    }
    let parse = |(index, state): (usize, &String)| {
        at(
            &format!("intent.from_states[{index}]"),
            StateName::parse(state),
        )
    };
    states.iter().enumerate().map(parse).collect()
}

fn movement(wire: pb::Move) -> Result<Move, Fault> {
    let state = |field: &str, text: &str| {
        present(text)
            .map(|text| at(field, StateName::parse(text)))
            .transpose()
    };
    Ok(Move {
        to: state("intent.move.to_state", &wire.to_state)?,
        initial: state("intent.move.initial_state", &wire.initial_state)?,
        sets: identity("intent.move.sets", &wire.sets)?,
    })
}
