"""HTTP/2 (RFC 9113): one connection, many streams, each passed to the application that accepts it."""
