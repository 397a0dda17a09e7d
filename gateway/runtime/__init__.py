"""I/O: event loop, clock, sockets, TLS, disk, random numbers, signals. No other part of the server does I/O."""
