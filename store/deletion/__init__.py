"""What leaves the log, and what is written again before it does."""
