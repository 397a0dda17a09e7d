"""The index over the log for disconnected sessions, and its rebuild."""
