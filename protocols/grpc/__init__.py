"""RocketMQ 5's gRPC protocol: an application on HTTP/2 connections."""
