"""Raft as a state machine over values: messages, ticks and proposals in; values to persist, send and apply out."""
