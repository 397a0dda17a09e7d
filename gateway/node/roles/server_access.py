"""Connections to the servers of one table of the settings: key and authorities, read from their files."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from typing import Final, final

from domain.errors import ConfigError
from domain.limits import SECOND_NS
from domain.ports import Clock
from gateway.client.answer import KeyPlaceError
from gateway.client.security import AccessKey, KeyPlace
from gateway.link.dialer import CONNECT_S, UNWRITTEN_BYTES_MAX, SocketDialer
from gateway.link.request import Sign
from gateway.link.servers import Servers

KEPT_NS: Final = SECOND_NS
"""Time after which the place of a key is read again: a key that is changed there is used from then on."""

log = logging.getLogger("headgate.node")


@final
class KeptKey:
    """Signs requests. A place that cannot be read any more costs a line in the log; the key that was there last goes on."""

    def __init__(self, place: KeyPlace, clock: Clock) -> None:
        """Read the key. Raises KeyPlaceError."""
        self._place = place
        self._clock = clock
        self._key: AccessKey = place.read()
        self._read_ns = clock.monotonic_ns()
        self._is_readable = True

    def signed(self, fields: Mapping[str, str], body: bytes) -> dict[str, str]:
        """The ext fields of a request with those of its signature (`AccessKey.signed`)."""
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._read_ns >= KEPT_NS:
            self._read_ns = now_ns
            self._read()
        return self._key.signed(fields, body)

    def _read(self) -> None:
        try:
            self._key = self._place.read()
            self._is_readable = True
        except KeyPlaceError as error:
            if self._is_readable:
                log.warning("%s; the key that was there before is used", error)
            self._is_readable = False


@final
class ServerAccess:
    """Shows `servers` who this node is, and checks who they are."""

    def __init__(self, servers: Servers) -> None:
        """Reads the files once. Raises ConfigError when one cannot be used."""
        self.servers = servers
        self.sign()
        self.tls()

    def sign(self) -> Sign | None:
        """The function that signs requests with the key that the file has now; None: no key is set. Raises ConfigError."""
        return self._signed(lambda place: place.read().signed)

    def kept_sign(self, clock: Clock) -> Sign | None:
        """The function that signs requests, and reads a changed key again; None: no key is set. Raises ConfigError."""
        return self._signed(lambda place: KeptKey(place, clock).signed)

    def _signed(self, make: Callable[[KeyPlace], Sign]) -> Sign | None:
        servers = self.servers
        if not (servers.key_file or servers.key_env):
            return None
        try:
            return make(KeyPlace(servers.key_file, servers.key_env))
        except KeyPlaceError as error:
            raise ConfigError(f"{servers.key_setting}: {error}") from error

    def tls(self) -> ssl.SSLContext | None:
        """TLS 1.2 or later, with the authorities as they are now; None: plain text. Raises ConfigError."""
        servers = self.servers
        if not servers.ca:
            return None
        try:
            context = ssl.create_default_context(cafile=servers.ca)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"{servers.ca_setting} {servers.ca} cannot be used: {error}") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    def dialer(self, connect_s: float = CONNECT_S, unwritten_bytes_max: int = UNWRITTEN_BYTES_MAX) -> SocketDialer:
        """Makes connections; the arguments are those of `SocketDialer`."""
        return SocketDialer(self.tls, self.servers.ca_setting, connect_s, unwritten_bytes_max)
