"""Datagram ports: sockets that share a port, what waits in front of a protocol, and the pump."""
