"""The roles of a node: what one process runs behind its ports."""
