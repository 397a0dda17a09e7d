"""The gRPC protocol's messages: messaging.proto, and what protoc makes of it. Written by hand: only the .proto."""
