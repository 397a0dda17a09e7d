"""The ClientHello of DTLS 1.2, and cookies that prove an address before anything is kept for it (RFC 6347, section 4.2.1).

ClientHello --no cookie--> HelloVerifyRequest with a cookie: a keyed hash of address, time and hello; nothing is kept
ClientHello with the cookie --> a session
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, final

HANDSHAKE: Final = 22
ALERT: Final = 21
RECORD_HEAD: Final = 13
"""Bytes of a record's head: type 1 | version 2 | epoch 2 | sequence 6 | length 2."""
_CLIENT_HELLO: Final = 1
_VERIFY_REQUEST: Final = 3
_MESSAGE_HEAD: Final = 12
_RANDOM_AT: Final = RECORD_HEAD + _MESSAGE_HEAD + 2
_SESSION_ID_AT: Final = _RANDOM_AT + 32
COOKIE_BYTES: Final = 20
WINDOW_NS: Final = 60_000_000_000
"""A cookie is good for one to two minutes."""
_DTLS_1_0: Final = b"\xfe\xff"


@final
class ClientHello:
    """The fields of a ClientHello, in one record and one fragment, that a cookie is made of.

    random     the client's random bytes: they distinguish a repeated hello from a new one
    cookie     the cookie that it shows, b"" for none
    bound      the hello without cookie, for which alone the cookie is valid
    sequence   sequence number of its record
    """

    __slots__ = ("bound", "cookie", "random", "sequence")

    def __init__(self, random: bytes, cookie: bytes, bound: bytes, sequence: bytes) -> None:
        self.random = random
        self.cookie = cookie
        self.bound = bound
        self.sequence = sequence


def epoch_of(data: bytes) -> int:
    """The epoch of the first record; `data` has RECORD_HEAD bytes."""
    return data[3] << 8 | data[4]


def read(data: bytes) -> ClientHello | None:
    """Read a datagram that begins with a ClientHello; None for anything else, for pieces and for malformed ones."""
    if len(data) < _SESSION_ID_AT + 2 or data[0] != HANDSHAKE or data[1] != 0xFE or data[RECORD_HEAD] != _CLIENT_HELLO:
        return None
    size = int.from_bytes(data[RECORD_HEAD + 1 : RECORD_HEAD + 4], "big")
    offset, part = (int.from_bytes(data[at : at + 3], "big") for at in (RECORD_HEAD + 6, RECORD_HEAD + 9))
    end = RECORD_HEAD + _MESSAGE_HEAD + size
    if offset or part != size or end > len(data) or end > RECORD_HEAD + int.from_bytes(data[11:13], "big"):
        return None
    cookie_at = _SESSION_ID_AT + 1 + data[_SESSION_ID_AT]
    if cookie_at >= end or cookie_at + 1 + data[cookie_at] > end:
        return None
    rest_at = cookie_at + 1 + data[cookie_at]
    bound = data[RECORD_HEAD + _MESSAGE_HEAD : cookie_at] + data[rest_at:end]
    return ClientHello(data[_RANDOM_AT:_SESSION_ID_AT], data[cookie_at + 1 : rest_at], bound, data[5:11])


@final
class Cookies:
    """Makes and checks cookies, without keeping any."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def proves(self, hello: ClientHello, address: tuple[str, int], now: int) -> bool:
        """True when the hello shows a cookie that was sent to this address, for this hello, a short time ago."""
        if len(hello.cookie) != COOKIE_BYTES:
            return False
        window = now // WINDOW_NS
        return any(hmac.compare_digest(hello.cookie, self._cookie(hello, address, at)) for at in (window, window - 1))

    def request(self, hello: ClientHello, address: tuple[str, int], now: int) -> bytes:
        """The HelloVerifyRequest for a hello: 48 bytes, fewer than the hello has."""
        body = _DTLS_1_0 + bytes((COOKIE_BYTES,)) + self._cookie(hello, address, now // WINDOW_NS)
        size = len(body).to_bytes(3, "big")
        message = bytes((_VERIFY_REQUEST,)) + size + b"\x00\x00" + b"\x00\x00\x00" + size + body
        return bytes((HANDSHAKE,)) + _DTLS_1_0 + b"\x00\x00" + hello.sequence + len(message).to_bytes(2, "big") + message

    def _cookie(self, hello: ClientHello, address: tuple[str, int], window: int) -> bytes:
        text = b"%b|%d|%d|%b" % (address[0].encode(), address[1], window, hello.bound)
        return hashlib.blake2s(text, digest_size=COOKIE_BYTES, key=self._secret).digest()


def is_encrypted(data: bytes) -> bool:
    """True when one of the records is of a later epoch than 0."""
    at = 0
    while at + RECORD_HEAD <= len(data):
        if epoch_of(data[at : at + RECORD_HEAD]):
            return True
        at += RECORD_HEAD + int.from_bytes(data[at + 11 : at + 13], "big")
    return False


def is_whole(data: bytes, encrypted_bytes_min: int) -> bool:
    """True when a datagram is whole records, and those of epochs above 0 have at least `encrypted_bytes_min` bytes.

    A shorter one cannot be decrypted; OpenSSL ends the session for it, whatever its sender.
    """
    at = 0
    while at + RECORD_HEAD <= len(data):
        size = int.from_bytes(data[at + 11 : at + 13], "big")
        if size < encrypted_bytes_min and epoch_of(data[at : at + RECORD_HEAD]):
            return False
        at += RECORD_HEAD + size
    return at == len(data)


def alert(description: int, sequence: int) -> bytes:
    """A fatal alert without encryption, as the record with this sequence number of epoch 0."""
    return bytes((ALERT,)) + b"\xfe\xfd\x00\x00" + sequence.to_bytes(6, "big") + b"\x00\x02\x02" + bytes((description,))


def datagrams(records: bytes, bytes_max: int) -> list[bytes]:
    """Records one after the other -> datagrams of at most `bytes_max` bytes, or of one record that is larger."""
    found: list[bytes] = []
    at = start = 0
    while at + RECORD_HEAD <= len(records):
        end = at + RECORD_HEAD + int.from_bytes(records[at + 11 : at + 13], "big")
        if end - start > bytes_max and at > start:
            found.append(records[start:at])
            start = at
        at = end
    if start < len(records):
        found.append(records[start:])
    return found
