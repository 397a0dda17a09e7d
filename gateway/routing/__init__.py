"""Finds the topic filters that match a record's path."""
