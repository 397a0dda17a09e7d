"""Free ports on loopback for the nodes and brokers of the examples."""

from __future__ import annotations

import random
import socket
from typing import Final

LISTENERS: Final = (
    "nameserver", "remoting", "grpc", "http", "mqtt", "mqtts", "websocket", "websockets", "coap", "coap-tcp", "coaps",
    "coaps-tcp", "admin",
)  # fmt: skip
_RANGE: Final = range(11_000, 12_000)
"""Below the ports that the system gives to clients, one of which could take a port before the node does."""
_given: set[int] = set()


def free_ports() -> dict[str, int]:
    """Listener of a node -> a port that nobody has now."""
    return {name: free_port() for name in LISTENERS}


def free_port() -> int:
    """A port that nobody has now; each call gives another one."""
    while True:
        port = random.choice(_RANGE)
        if port not in _given:
            try:
                socket.create_server(("127.0.0.1", port)).close()
            except OSError:
                continue
            _given.add(port)
            return port
