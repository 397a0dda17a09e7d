"""The store as the gateway knows it: ports, requests, events, the engine's contract."""
