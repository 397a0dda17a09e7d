"""Service of a replica to clients while it follows: reads, up to its confirmed position."""
