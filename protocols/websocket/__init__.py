"""WebSocket as the carrier of a stream protocol (RFC 6455)."""
