"""Client connections: the pump between a socket and the use cases, and what all connections share."""
