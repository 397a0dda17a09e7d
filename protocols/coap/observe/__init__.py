"""Observation of resources (RFC 7641)."""
