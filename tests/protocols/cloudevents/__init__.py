"""CloudEvents: the codec against the specification and against the SDK."""
