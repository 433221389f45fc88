//! What a message asks for.

use std::collections::BTreeMap;

use crate::domain::digest::{Content, Sent};
use crate::domain::ids::{EventName, IdentityName, IdentityValue, OperationId, StateName};
use crate::domain::machine::DigestRule;
use crate::domain::request::{
    FROM_STATES_MAX, IDENTITY_NAMES_MAX, Identity, Intent, Interrupted, Move,
};
use crate::engine::{Counted, Fault};
use crate::proto::v1 as pb;
use crate::proto::v1::intent::Content as Wire;

use super::{at, present, refused, shown, span};

/// Reads an intent. `counted` says what of the content counts.
pub(super) fn from_wire(
    intent: pb::Intent,
    counted: impl FnOnce(Option<&EventName>) -> Counted,
) -> Result<Intent, Fault> {
    let operation = at(
        "intent.operation_id",
        OperationId::parse(&intent.operation_id),
    )?;
    let identity = identity("intent.identity", &intent.identity)?;
    let from = from_states(&intent.from_states)?;
    let movement = intent.r#move.map(movement).transpose()?;
    let event = present(&intent.event)
        .map(|event| at("intent.event", EventName::parse(event)))
        .transpose()?;
    if event.is_some() && movement.is_some() {
        return Err(refused(
            "intent.move",
            "excludes `event`: the machine says where an event leads",
        ));
    }
    if movement.is_none() && event.is_none() && !from.is_empty() {
        return Err(refused(
            "intent.from_states",
            "must be absent without a move or an event: where no state changes, none is judged",
        ));
    }
    let made_ms = span::moment("intent.operation_time", intent.operation_time)?;
    // Last, for it is the only part that takes time.
    let content = content(intent.content, event.is_some(), counted(event.as_ref()))?;
    Ok(Intent {
        operation,
        event,
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

/// Reads the content.
fn content(content: Option<Wire>, of_event: bool, counted: Counted) -> Result<Content, Fault> {
    let sent = match content {
        Some(Wire::Json(text)) => Sent::Json(text),
        Some(Wire::Raw(bytes)) => Sent::Raw(bytes),
        Some(Wire::Digest(digest)) => Sent::Digest(digest),
        // Whether the event may go without is for its machine to say.
        None if of_event => return Ok(Content::none()),
        None => {
            return Err(refused(
                "intent.content",
                "is required: json, raw or digest; an empty raw means that the message has none",
            ));
        }
    };
    let Counted {
        rule, may_change, ..
    } = counted;
    let whole = || {
        at(
            sent.field(),
            Content::read(sent.given(), &DigestRule::Whole),
        )
    };
    let content = match rule {
        // That nothing counts is for the machine in force to say; what is sent must be sound all the same.
        DigestRule::Whole | DigestRule::None => whole()?,
        // So is what does not fit the rule, which may have been replaced meanwhile.
        rule @ (DigestRule::Include(_) | DigestRule::Exclude(_)) => {
            Content::read(sent.given(), &rule).or_else(|_| whole())?
        }
    };
    Ok(if may_change {
        content.keeping(sent)
    } else {
        content
    })
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
