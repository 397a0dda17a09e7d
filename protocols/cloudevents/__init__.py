"""CloudEvents 1.0.2: the JSON event format, the HTTP binding, and the mapping to messages. Invalid events are refused."""
