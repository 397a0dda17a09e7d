"""RocketMQ 5's gRPC protocol: an application above HTTP/2."""
