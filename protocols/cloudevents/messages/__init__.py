"""The messages of the protobuf event format: cloudevents.proto, and what protoc makes of it."""
