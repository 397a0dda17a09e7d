"""Tools for a data directory that no node has open."""
