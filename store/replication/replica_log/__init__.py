"""The log of a follower, whose batches are applied after their confirmation, and the log of a leader."""
