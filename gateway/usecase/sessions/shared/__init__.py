"""Shared subscriptions: sessions as members of consumer groups."""
