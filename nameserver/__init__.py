"""The name server's own state: which brokers live, and which topics they have. Pure; the clock is handed in."""
