"""`headgate import`: topics, groups, positions and rights of a RocketMQ cluster, made at a node over the public requests."""
