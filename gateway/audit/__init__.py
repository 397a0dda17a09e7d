"""The audit log: who did what, from where, and how it ended."""
