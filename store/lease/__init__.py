"""Leases, positions of groups, and pulls of members."""
