"""Requests to a name server: routes, and brokers that register themselves."""
