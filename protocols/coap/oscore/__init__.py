"""OSCORE (RFC 8613): protection of each request and response, independent of the transport."""
