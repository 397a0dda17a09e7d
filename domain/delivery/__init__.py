"""Time and order of deliveries: retry policies, expiry, priorities, and the recall of delayed messages."""
