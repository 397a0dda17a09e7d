"""Consuming messages: receiving, pulling, settling, dead letters, queue locks, watching."""
