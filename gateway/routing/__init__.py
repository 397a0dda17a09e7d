"""Where a message goes, and who is told of it."""
