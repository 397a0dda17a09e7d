"""Filters of consumers on messages: tags, SQL92, paths."""
