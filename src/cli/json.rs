//! Answers as proto3 JSON, written as the JSON door writes them.

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};

use super::trouble::Trouble;
use crate::proto::v1::FILE_DESCRIPTOR_SET;

/// One message on one line.
pub(super) fn line(name: &str, message: &impl Message) -> Result<String, Trouble> {
    render(name, message)
        .map_err(|error| Trouble::failed(format!("cannot write {name} as JSON: {error}")))
}

fn render(name: &str, message: &impl Message) -> Result<String, Box<dyn std::error::Error>> {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET)?;
    let descriptor = pool
        .get_message_by_name(&format!("fencepost.v1.{name}"))
        .ok_or("the interface has no such message")?;
    let dynamic = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice())?;
    let mut text = serde_json::to_string(&dynamic)?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::{Decision, InspectResponse, Result as Stored, Snapshot};

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
