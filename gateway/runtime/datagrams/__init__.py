"""Datagram ports: sockets that share a port, the inbox in front of a protocol, and the pump."""
