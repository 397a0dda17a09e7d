"""Messages at brokers: sending, reading by offset, and following what is new."""
