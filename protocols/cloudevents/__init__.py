"""CloudEvents 1.0.2: the JSON event format, the HTTP binding, and their place in a message. Strict, over bytes, no I/O."""
