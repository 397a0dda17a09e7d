"""The listeners of a node: what each speaks, under which name its connections are counted, and what it is for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GRPC: Final = "grpc"
"""What an HTTP/2 connection counts as once its first request was one of gRPC's, on whatever port."""
SECURE: Final = ("mqtts", "websockets")
"""Stream listeners that take nothing but TLS."""

SPEAKS: Final[Mapping[str, tuple[str, ...] | None]] = {
    "nameserver": ("remoting",),
    "remoting": ("remoting",),
    "grpc": ("http2",),
    "http": None,
    "mqtt": ("mqtt",),
    "mqtts": ("mqtt",),
    "websocket": ("websocket",),
    "websockets": ("websocket",),
}
"""Stream listener -> the protocols that it recognises; None: all of them. Every one of them also takes TLS."""

DATAGRAM: Final = ("coap",)
"""Datagram listeners; the protocol has the listener's name."""

LABELS: Final[Mapping[tuple[str, str], str]] = {
    ("grpc", "http2"): "grpc",
    ("http", "http1"): "http",
    ("http", "http2"): "http",
    ("websocket", "http1"): "websocket",
    ("websockets", "http1"): "websocket",
}
"""(listener, protocol) -> the name under which its connections are counted, where it is not the protocol's own."""

ABOUT: Final[Mapping[str, str]] = {
    "nameserver": "RocketMQ nameserver",
    "remoting": "RocketMQ remoting",
    "grpc": "RocketMQ gRPC",
    "http": "HTTP/1.1, HTTP/2, CloudEvents, and every stream protocol above and below",
    "mqtt": "MQTT 3.1.1 and 5.0",
    "mqtts": "MQTT over TLS",
    "websocket": "MQTT over WebSocket, path /mqtt",
    "websockets": "MQTT over secure WebSocket, path /mqtt",
    "coap": "CoAP (UDP)",
    "admin": "/healthz /readyz /metrics",
}
