"""Topics, groups and brokers as a cluster configures them."""
