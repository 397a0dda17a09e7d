"""Requests of tools: what they set, and what they ask a node about."""
