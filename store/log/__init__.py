"""Segments, batches and group commit."""
