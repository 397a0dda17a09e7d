"""Remoting between nodes of Headgate: forwarding, replication, commands."""
