"""Topics, and the groups that consume them."""
