"""A blocking client of the remoting protocol, for connectors and tools."""
