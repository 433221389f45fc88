//! The descriptors of the interface.

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions};

use crate::proto::v1::FILE_DESCRIPTOR_SET;

static SERVICE: LazyLock<prost_reflect::ServiceDescriptor> = LazyLock::new(|| {
    DescriptorPool::decode(FILE_DESCRIPTOR_SET)
        .expect("the descriptors come from the same build as the code")
        .get_service_by_name("fencepost.v1.CoordinationService")
        .expect("the interface has this service")
});

/// The unary calls of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::transport) enum Rpc {
    Reserve,
    Transition,
    Fence,
    Renew,
    Release,
    Lookup,
    Inspect,
}

impl Rpc {
    const ALL: [Self; 7] = [
        Self::Reserve,
        Self::Transition,
        Self::Fence,
        Self::Renew,
        Self::Release,
        Self::Lookup,
        Self::Inspect,
    ];

    /// The call of this name.
    pub(in crate::transport) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rpc| rpc.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Reserve => "Reserve",
            Self::Transition => "Transition",
            Self::Fence => "Fence",
            Self::Renew => "Renew",
            Self::Release => "Release",
            Self::Lookup => "Lookup",
            Self::Inspect => "Inspect",
        }
    }

    fn descriptor(self) -> prost_reflect::MethodDescriptor {
        SERVICE
            .methods()
            .find(|method| method.name() == self.name())
            .expect("the interface has a method for each of these")
    }

    /// What it takes.
    pub(super) fn input(self) -> MessageDescriptor {
        self.descriptor().input()
    }

    /// What it answers.
    pub(super) fn output(self) -> MessageDescriptor {
        self.descriptor().output()
    }
}

/// What a call of the operator's service takes. `None`: there is no such call.
pub(in crate::transport) fn operator_input(method: &str) -> Option<MessageDescriptor> {
    let service = SERVICE
        .parent_pool()
        .get_service_by_name("fencepost.v1.OperatorService");
    let service = service.expect("the interface has this service");
    let mut methods = service.methods();
    methods
        .find(|found| found.name() == method)
        .map(|found| found.input())
}

/// Puts an encoded message into JSON: 64-bit numbers as strings, bytes in base64, enums by name.
pub(super) fn to_json(descriptor: MessageDescriptor, encoded: &[u8]) -> Vec<u8> {
    let message = DynamicMessage::decode(descriptor, encoded)
        .expect("a message that we encoded decodes by its own descriptor");
    let mut json = serde_json::Serializer::new(Vec::new());
    message
        .serialize_with_options(&mut json, &SerializeOptions::new())
        .expect("every message of the interface has a JSON form");
    json.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::streams::Streaming;

    #[test]
    fn every_unary_method_of_the_service_is_served_as_json_and_each_stream_says_what_to_use_instead()
     {
        let (streams, unary): (Vec<_>, Vec<_>) = SERVICE
            .methods()
            .partition(|method| method.is_server_streaming());
        let named = unary.iter().filter_map(|method| Rpc::named(method.name()));
        let named: Vec<_> = named.collect();
        assert_eq!(named.len(), unary.len());
        for method in streams {
            let streaming = Streaming::named(method.name()).unwrap();
            assert!(streaming.instead().starts_with(method.name()));
            assert_eq!(Rpc::named(method.name()), None);
        }
        for rpc in named {
            assert_eq!(rpc.input().name(), format!("{}Request", rpc.name()));
            assert_eq!(rpc.output().name(), format!("{}Response", rpc.name()));
        }
    }
}
