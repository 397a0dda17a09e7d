"""A gateway without a store: the commands of its clients are carried out by the node that has one (decision 38)."""
