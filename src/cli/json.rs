//! Answers as proto3 JSON, written as the JSON door writes them.

use std::sync::LazyLock;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};

use super::trouble::{Trouble, commands_a_terminal};
use crate::proto::v1::FILE_DESCRIPTOR_SET;

static INTERFACE: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(FILE_DESCRIPTOR_SET)
        .expect("the descriptors come from the same build as the code")
});

/// One message on one line.
pub(super) fn line(name: &str, message: &impl Message) -> Result<String, Trouble> {
    render(name, message)
        .map_err(|error| Trouble::failed(format!("cannot write {name} as JSON: {error}")))
}

fn render(name: &str, message: &impl Message) -> Result<String, Box<dyn std::error::Error>> {
    let descriptor = INTERFACE
        .get_message_by_name(&format!("fencepost.v1.{name}"))
        .ok_or("the interface has no such message")?;
    let dynamic = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice())?;
    let mut text = spelled_out(&serde_json::to_string(&dynamic)?);
    text.push('\n');
    Ok(text)
}

/// JSON leaves some characters as they are that command a terminal. All of them stand in strings, where an escape says the same.
fn spelled_out(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if commands_a_terminal(character) {
            text.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            text.push(character);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::{Decision, InspectResponse, Resource, Result as Stored, Snapshot};

    #[test]
    fn no_character_of_an_answer_commands_a_terminal_and_none_is_lost() {
        let id = "a\u{1b}\u{7f}\u{9b}2J\u{202e}\u{2028}é \u{200d}";
        let resource = Resource {
            kind: "order".into(),
            id: id.into(),
        };
        let text = line("Resource", &resource).unwrap();
        assert!(!text.trim_end().contains(commands_a_terminal), "{text}");
        assert!(text.contains("é"), "{text}");
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["id"], id);
    }

    #[test]
    fn large_integers_are_strings_and_bytes_are_base64() {
        let snapshot = Snapshot {
            live_token: (1 << 53) - 1,
            ..Snapshot::default()
        };
        let text = line(
            "InspectResponse",
            &InspectResponse {
                snapshot: Some(snapshot),
                queue: None,
            },
        )
        .unwrap();
        assert_eq!(
            text,
            "{\"snapshot\":{\"liveToken\":\"9007199254740991\"}}\n"
        );
        let decision = Decision {
            result: Some(Stored {
                body: bytes::Bytes::from_static(&[0, 255]),
                ..Stored::default()
            }),
            ..Decision::default()
        };
        assert!(
            line("Decision", &decision)
                .unwrap()
                .contains("\"body\":\"AP8=\"")
        );
    }
}
