"""HTTP/1.1 alone: bytes to requests, and what one connection has to keep."""
