"""The opening of a store: the recovered log, and the open store over it, with its ports, housekeeping and backups."""
