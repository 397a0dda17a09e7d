"""Certificates of a node, and DTLS 1.2 for datagram ports by the OpenSSL library of the system."""
