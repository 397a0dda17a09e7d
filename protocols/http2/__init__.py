"""HTTP/2 (RFC 9113): one connection, many streams, each handed to the application that accepts it."""
