"""Raft as a state machine over values: messages, ticks and proposals in; what to persist, send and apply out."""
