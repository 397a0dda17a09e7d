"""The gRPC protocol's messages: messaging.proto, and the module that protoc makes of it. Written by hand: only the .proto."""
