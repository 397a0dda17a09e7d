"""Decisions of controllers about store groups: their state, changes of it, and the requests of brokers and tools."""
