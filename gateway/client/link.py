"""One blocking connection to a remoting server. Replies are matched with requests by opaque."""

from __future__ import annotations

import itertools
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from typing import Final

from domain.address import endpoint_of
from gateway.client.answer import ClientError, GarbledError
from gateway.client.security import AccessKey, KeyPlace, Tls
from protocols.remoting.wire.frame import Frame, FrameDecoder, encode
from protocols.remoting.wire.header import BINARY, JSON, LANGUAGE_OTHER

Request = tuple[int, Mapping[str, str], bytes]
"""(request code, ext fields, body)."""

_CHUNK_BYTES: Final = 1024 * 1024
_CODE_MAX_BINARY: Final = 0x7FFF


class Link:
    """A connection, opened by the constructor.

    address  host:port of the server
    closed   True after `close` and after any error
    is_plain True when the server has answered that it does not know the request codes of Headgate
    key      the access key that signs the requests of this connection; None: they are not signed
    _answers True once the server has sent a byte

    Every error closes the connection: OSError (TimeoutError included), which another attempt may not meet; TlsError and
    KeyPlaceError, which it would meet; GarbledError when the server speaks another protocol.
    """

    def __init__(self, address: str, timeout_s: float, tls: Tls | None = None, key: KeyPlace | None = None) -> None:
        endpoint = endpoint_of(address)
        if endpoint is None:
            raise ConnectionError(f"{address!r} is no address; it is written host:port")
        self.address = address
        self.closed = False
        self.is_plain = False
        self.key: AccessKey | None = None if key is None else key.read()
        self._timeout_s = timeout_s
        self._tls = tls
        self._answers = False
        self._opaques = itertools.count(1)
        self._decoder = FrameDecoder()
        context = None if tls is None else tls.context()
        end = time.monotonic() + timeout_s
        try:
            self._socket = socket.create_connection(endpoint, timeout_s)
        except OSError as error:
            raise ConnectionError(f"cannot connect to {address}: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            self._socket.settimeout(max(end - time.monotonic(), 0.001))
            try:
                self._socket = context.wrap_socket(self._socket, server_hostname=endpoint[0])
            except OSError as error:
                self._refuse(error)
                raise ConnectionError(
                    f"TLS with {address} broke: {error}; the server has no TLS, or it stops or starts"
                ) from error

    def close(self) -> None:
        """Close the connection. Does nothing when it is closed."""
        if not self.closed:
            self.closed = True
            self._socket.close()

    def ask(self, requests: Sequence[Request]) -> list[Frame]:
        """Send `requests` in one write. Returns their replies in the same order."""
        return self.take(self.post(requests))

    def post(self, requests: Sequence[Request]) -> list[int]:
        """Send `requests` in one write without waiting. Returns their opaques, for `take`."""
        opaques = [next(self._opaques) for _ in requests]
        frames = [
            encode(
                code, opaque, fields=fields if self.key is None else self.key.signed(fields, body), body=body,
                language=LANGUAGE_OTHER, serialize=JSON if code > _CODE_MAX_BINARY else BINARY,
            )
            for opaque, (code, fields, body) in zip(opaques, requests, strict=True)
        ]  # fmt: skip
        try:
            self._write(b"".join(frames))
        except OSError as error:
            self.close()
            self._refuse(error)
            raise ConnectionError(f"the connection to {self.address} broke: {error}") from error
        return opaques

    def take(self, opaques: Sequence[int]) -> list[Frame]:
        """Wait for the replies to `opaques`, returned in that order. Other replies are dropped."""
        waiting = set(opaques)
        found: dict[int, Frame] = {}
        end = time.monotonic() + self._timeout_s
        try:
            while waiting:
                for frame in self._decoder.feed(self._read(end)):
                    if frame.response and frame.opaque in waiting:
                        waiting.discard(frame.opaque)
                        found[frame.opaque] = frame
                if self._decoder.fault:
                    raise GarbledError(f"{self.address} does not speak the remoting protocol ({self._decoder.fault})")
        except (OSError, ClientError):
            self.close()
            raise
        return [found[opaque] for opaque in opaques]

    def _write(self, data: bytes) -> None:
        """Send all of it within the time of one attempt. TLS sends one record a call, so each gets the time that is left."""
        end = time.monotonic() + self._timeout_s
        rest = memoryview(data)
        while rest:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{self.address} did not read the request within {self._timeout_s:g} s")
            self._socket.settimeout(left)
            rest = rest[self._socket.send(rest) :]

    def _refuse(self, error: OSError) -> None:
        """Raise TlsError when `error` is an error of TLS that every further attempt would meet too."""
        found = self._tls.refusal(self.address, error) if self._tls is not None and isinstance(error, ssl.SSLError) else None
        if found is not None:
            raise found from error

    def _read(self, end: float) -> bytes:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"{self.address} did not answer within {self._timeout_s:g} s")
        self._socket.settimeout(left)
        try:
            data = self._socket.recv(_CHUNK_BYTES)
        except TimeoutError as error:
            raise TimeoutError(f"{self.address} did not answer within {self._timeout_s:g} s") from error
        except OSError as error:
            self._refuse(error)
            raise ConnectionError(f"the connection to {self.address} broke: {error}{self._hint()}") from error
        if not data:
            raise ConnectionError(f"{self.address} closed the connection{self._hint()}")
        self._answers = True
        return data

    def _hint(self) -> str:
        """A likely reason why the server has closed the connection, for an error message."""
        return "" if self._answers or self._tls is not None else ", without a word: a server that takes TLS only does that"
