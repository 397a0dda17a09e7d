"""A controller among others: how it reaches them, and what it answers to brokers and tools."""
