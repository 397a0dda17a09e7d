"""Appends, from the client's message to the open batch."""
