"""Tools for a data directory: backup, restore, check, repair."""
