"""CloudEvents: tests of the codec against the specification and the SDK."""
