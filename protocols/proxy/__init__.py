"""The PROXY protocol, versions 1 and 2: the client's address of a connection that a proxy forwards."""
