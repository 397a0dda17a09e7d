"""Topics, groups and capabilities of brokers of a cluster."""
