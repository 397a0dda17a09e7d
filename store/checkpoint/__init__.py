"""What a start needs besides the end of the log: checkpoints, their snapshots, and recovery from them."""
