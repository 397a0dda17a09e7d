"""Calls that wait for messages, and the turns of the loop that they share."""
