"""The log: segments, batches and group commit."""
