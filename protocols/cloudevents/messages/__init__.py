"""The messages of the protobuf event format: cloudevents.proto, and the module that protoc makes of it."""
