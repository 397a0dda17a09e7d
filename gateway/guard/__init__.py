"""Limits on connections, messages and bytes, decided from counts and a time that is an argument."""
