"""What a replica does for clients while it follows: reads, up to its confirmed position."""
