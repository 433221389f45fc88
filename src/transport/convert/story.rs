//! The story of a resource, in and out.

use crate::domain::explain::{Sentence, Story, Topic};
use crate::domain::ids::{OperationId, ResourceId};
use crate::engine::Fault;
use crate::proto::v1 as pb;

use super::queue::{self, Told};
use super::{answer, ask, at, present};

/// Reads which resource, and which of its operations.
pub(crate) fn which(
    request: pb::ExplainResourceRequest,
) -> Result<(ResourceId, Option<OperationId>), Fault> {
    let operation = present(&request.operation_id);
    let operation = operation.map(|id| at("operation_id", OperationId::parse(id)));
    Ok((ask::resource(request.resource)?, operation.transpose()?))
}

/// Writes the story.
pub(crate) fn to_wire(story: Story) -> pb::ExplainResourceResponse {
    pb::ExplainResourceResponse {
        snapshot: Some(answer::snapshot(story.snapshot)),
        sentences: story.sentences.into_iter().map(sentence).collect(),
        known: story.known,
        queue: Some(queue::to_wire(story.waiting, Told::Operators)),
    }
}

fn sentence(sentence: Sentence) -> pb::Sentence {
    let topic = match sentence.topic {
        Topic::State => pb::Topic::State,
        Topic::Identity => pb::Topic::Identity,
        Topic::Round => pb::Topic::Round,
        Topic::Token => pb::Topic::Token,
        Topic::Queue => pb::Topic::Queue,
        Topic::Operation => pb::Topic::Operation,
        Topic::Claim => pb::Topic::Claim,
        Topic::Incident => pb::Topic::Incident,
        Topic::Event => pb::Topic::Event,
        Topic::Answer => pb::Topic::Answer,
        Topic::Next => pb::Topic::Next,
    };
    pb::Sentence {
        topic: topic.into(),
        text: sentence.text,
    }
}
