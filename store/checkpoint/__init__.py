"""Checkpoints, their snapshots, and the recovery of a start from them and the end of the log."""
