//! The door for callers: gRPC and JSON.
