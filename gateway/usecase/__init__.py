"""Use cases: one verb of the domain a file. They know the ports, never a protocol and never the store."""
