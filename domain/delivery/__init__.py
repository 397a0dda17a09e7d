"""When messages are delivered, and in which order: retry policies, expiry, priorities, and the recall of delayed messages."""
