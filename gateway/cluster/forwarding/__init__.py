"""Forwarding by a gateway without a store: the node with the store handles the commands of its clients (decision 38)."""
