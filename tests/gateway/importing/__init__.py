"""Mirrors gateway/importing."""
