//! The services beside ours: health and reflection.

use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::HealthService;
use tonic_reflection::server::Builder;

use super::health::Health;

/// A request of health or reflection is a name, in bytes; this is far more.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Reflection may be asked for any symbol; it names these.
pub(super) const SERVICE: &str = "fencepost.v1.CoordinationService";
const OPERATOR_SERVICE: &str = "fencepost.v1.OperatorService";
const HEALTH: &str = "grpc.health.v1.Health";
const REFLECTION: [&str; 2] = [
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];

/// Beside the application's calls.
pub(super) fn beside(health: &Health) -> Routes {
    with_reflection(health, SERVICE)
}

/// Beside the operator's calls.
pub(super) fn beside_admin(health: &Health) -> Routes {
    with_reflection(health, OPERATOR_SERVICE)
}

fn with_reflection(health: &Health, service: &str) -> Routes {
    const SOUND: &str = "the descriptors come from the same build as the code";
    let reflection = || {
        let builder = Builder::configure()
            .register_encoded_file_descriptor_set(crate::proto::v1::FILE_DESCRIPTOR_SET)
            // The details of errors, so that generic clients can show them.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
        [service, HEALTH]
            .iter()
            .chain(&REFLECTION)
            .fold(builder, |builder, name| builder.with_service_name(*name))
    };
    let health = HealthServer::new(HealthService::from_health_reporter(health.reporter()))
        .max_decoding_message_size(MESSAGE_BYTES_MAX);
    let v1 = reflection().build_v1().expect(SOUND);
    let v1alpha = reflection().build_v1alpha().expect(SOUND);
    Routes::new(health)
        .add_service(v1.max_decoding_message_size(MESSAGE_BYTES_MAX))
        .add_service(v1alpha.max_decoding_message_size(MESSAGE_BYTES_MAX))
}
