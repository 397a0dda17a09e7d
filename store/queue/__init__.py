"""Where the messages of a queue are: the shared index."""
