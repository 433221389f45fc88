//! What is only asked for reads so, at every door.

use fencepost::proto::v1 as pb;
use fencepost::proto::v1::coordination_service_client::CoordinationServiceClient;
use serde_json::json;

use crate::json::call;
use crate::sidecar::Sidecar;

#[tokio::test]
async fn a_judgement_that_was_only_asked_for_says_that_nothing_was_written() {
    let sidecar = Sidecar::dev();
    let resource = || pb::Resource {
        kind: "order".into(),
        id: "1".into(),
    };
    let asked = |validate_only| pb::TransitionRequest {
        resource: Some(resource()),
        intent: Some(pb::Intent {
            operation_id: "pay".into(),
            content: Some(pb::intent::Content::Raw(Default::default())),
            r#move: Some(pb::Move {
                initial_state: "open".into(),
                to_state: "paid".into(),
                ..Default::default()
            }),
            ..Default::default()
        }),
        validate_only,
        ..Default::default()
    };
    let mut client = CoordinationServiceClient::connect(sidecar.url())
        .await
        .unwrap();
    let told = client.transition(asked(true)).await.unwrap().into_inner();
    let told = told.decision.unwrap();
    assert_eq!(told.verdict(), pb::Verdict::Applied);
    assert!(told.validate_only);
    let begins = "validate_only, so nothing was written; the answer would be: ";
    assert_eq!(told.explanation, format!("{begins}the move was made"));
    let over_json = json!({
        "resource": {"kind": "order", "id": "1"},
        "intent": {"operationId": "pay", "raw": "", "move": {"initialState": "open", "toState": "paid"}},
        "validateOnly": true,
    });
    let (code, answer) = call(&sidecar, "Transition", &over_json);
    let decision = &answer["decision"];
    assert_eq!((code, &decision["validateOnly"]), (200, &json!(true)));
    assert_eq!(decision["explanation"], told.explanation);
    let inspect = pb::InspectRequest {
        resource: Some(resource()),
        ..Default::default()
    };
    let found = client.inspect(inspect).await.unwrap().into_inner();
    assert_eq!(found.snapshot.unwrap().revision, 0, "it is as it was");
    // What stands does not say so.
    let made = client.transition(asked(false)).await.unwrap().into_inner();
    let made = made.decision.unwrap();
    assert!(!made.validate_only);
    assert_eq!(made.explanation, "the move was made");
    // A repetition that is only asked about would be one.
    let again = client.transition(asked(true)).await.unwrap().into_inner();
    let again = again.decision.unwrap();
    assert_eq!(again.verdict(), pb::Verdict::Replayed);
    assert!(again.validate_only && again.explanation.starts_with(begins));
}
