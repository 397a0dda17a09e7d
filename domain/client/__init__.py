"""Clients: their connections, sessions and memberships."""
