"""Network addresses of a node: binding sockets, and the address under which clients reach them."""

from __future__ import annotations

import errno
import socket

from domain.address import endpoint_text
from domain.errors import ConfigError


def bind(name: str, host: str, port: int, *, datagrams: bool = False) -> socket.socket:
    """A bound socket that accepts no connections yet. Raises ConfigError when the port cannot be bound."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_DGRAM if datagrams else socket.SOCK_STREAM)
    bound.setblocking(False)
    if not datagrams:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        if not datagrams:
            _refuse_twin(bound)
    except OSError as error:
        bound.close()
        raise ConfigError(_why(name, host, port, error)) from error
    return bound


def _refuse_twin(bound: socket.socket) -> None:
    """Listen at once: with SO_REUSEADDR, two servers can bind a port on which neither listens yet."""
    bound.listen(0)


def _why(name: str, host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} on {host} ({name}) is taken by another process: "
            f"stop it, or choose another port with --port {name}=N, or shift all of them, those of --port too, with "
            "--port-offset N; a port above 32767 may be in use by any process as the local one of a connection"
        )
    if error.errno == errno.EACCES:
        return f"port {port} on {host} ({name}) needs privileges: choose one above 1023 with --port {name}=N"
    return f"cannot listen on {endpoint_text(host, port)} ({name}): {error.strerror or error}; choose the address with --host"


def concrete(host: str) -> str:
    """The address under which clients reach `host`: for a wildcard the first address that is not loopback."""
    if host not in ("0.0.0.0", "::", ""):
        return "127.0.0.1" if host == "localhost" else host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])
