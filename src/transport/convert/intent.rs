//! What a message asks for.

use std::collections::BTreeMap;

use crate::domain::digest::ContentDigest;
use crate::domain::ids::{IdentityName, IdentityValue, OperationId, StateName};
use crate::domain::request::{
    FROM_STATES_MAX, IDENTITY_NAMES_MAX, Identity, Intent, Interrupted, Move,
};
use crate::engine::Fault;
use crate::proto::v1 as pb;
use crate::proto::v1::intent::Content;

use super::{at, present, refused, shown};

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
    Ok(Intent {
        operation,
        identity,
        // Last, for it is the only part that takes time.
        digest: digest(intent.content.as_ref())?,
        from,
        movement,
        interrupted: if intent.rerun_if_interrupted {
            Interrupted::Rerun
        } else {
            Interrupted::Ask
        },
    })
}

fn digest(content: Option<&Content>) -> Result<ContentDigest, Fault> {
    match content {
        Some(Content::Json(text)) => at("intent.json", ContentDigest::of_json(text)),
        Some(Content::Raw(bytes)) => at("intent.raw", ContentDigest::of_raw(bytes)),
        Some(Content::Digest(digest)) => at("intent.digest", ContentDigest::given(digest)),
        None => Err(refused(
            "intent.content",
            "is required: json, raw or digest; an empty raw means that the message has none",
        )),
    }
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
