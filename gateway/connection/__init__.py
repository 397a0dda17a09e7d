"""One client connection: the pump between socket and use cases, and what all connections share."""
