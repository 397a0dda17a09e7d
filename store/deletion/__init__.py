"""Deletion of segments and topics, and the rewriting of live values before it."""
