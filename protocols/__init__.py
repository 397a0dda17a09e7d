"""Bytes to domain commands and domain events to bytes, one folder a protocol. No I/O, no clock, no randomness of its own."""
