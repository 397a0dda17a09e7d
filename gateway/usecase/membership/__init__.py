"""Members of consumer groups, their positions and their progress."""
