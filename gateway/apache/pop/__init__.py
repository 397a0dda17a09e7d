"""Leases of an Apache RocketMQ cluster: POP requests, NOTIFICATIONs, acknowledgements and lease changes."""
