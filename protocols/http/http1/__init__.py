"""HTTP/1.1 alone: bytes to requests, and the state of one connection."""
