"""One DTLS session: datagrams of a peer to plain ones and back."""

from __future__ import annotations

from typing import Any, Final, final

from domain import limits
from gateway.runtime.security import openssl
from gateway.runtime.security.dtls_context import DtlsContext
from gateway.runtime.security.hello import alert, datagrams, is_encrypted, is_whole
from gateway.runtime.security.openssl import ffi

MTU: Final = 1_280
"""Bytes of a handshake datagram at most, by what every IPv6 path carries."""
PLAIN_BYTES_MAX: Final = 16_384
_DECRYPT_ERROR: Final = 51
_LONG_OVERHEAD: Final = 24
"""Bytes that GCM and CCM add to a record: 8 of the nonce, 16 of the tag. A Finished has as many of its own."""
_SHORT_OVERHEAD: Final = 16
"""The same of CCM-8 (8 and 8) and of ChaCha20-Poly1305 (16)."""
_ALERT_SEQUENCE: Final = 1 << 20
"""A sequence number of epoch 0 that no handshake reaches."""
_WAITS_FOR_FINISHED: Final = b"TRCCS"
_BUFFER: Final[Any] = ffi.new("unsigned char[]", PLAIN_BYTES_MAX + 1024)


@final
class DtlsSession:
    """A session in its handshake, or after it.

    number        its number: never that of another session of the port
    random        the client's random bytes
    failed        the session has ended, by either side
    identity      the PSK identity that the peer has named, and proven once established, with `key`; None: none
    wrong_key     True: the peer has shown that it has another key
    certified     common name of the peer's certificate, "": it has none
    deadline_ns   monotonic ns at which a handshake is given up
    """

    __slots__ = (
        "_context", "_encrypted_bytes_min", "_host", "_in", "_out", "_ssl", "certified", "deadline_ns", "established", "failed",
        "identity", "key", "number", "out", "random", "wrong_key",
    )  # fmt: skip

    def __init__(self, context: DtlsContext, number: int, random: bytes, hello: bytes, now: int, host: str = "") -> None:
        """`host`: address of the peer. `hello`: the datagram with the ClientHello, whose cookie has been checked."""
        lib = context.lib
        self._context = context
        self._host = host
        self.number = number
        self.random = random
        self.established = False
        self.failed = False
        self.wrong_key = False
        self.out: list[bytes] = []
        self.identity: str | None = None
        self.key = b""
        self.certified = ""
        self.deadline_ns = now + limits.HANDSHAKE_NS
        self._encrypted_bytes_min = _LONG_OVERHEAD
        self._ssl: Any = ffi.gc(lib.SSL_new(context.ctx), lib.SSL_free)
        self._in: Any = lib.BIO_new(lib.BIO_s_mem())
        self._out: Any = lib.BIO_new(lib.BIO_s_mem())
        for bio in (self._in, self._out):
            lib.BIO_ctrl(bio, openssl.BIO_SET_EOF_RETURN, -1, ffi.NULL)
        lib.SSL_set_bio(self._ssl, self._in, self._out)
        lib.SSL_ctrl(self._ssl, openssl.CTRL_SET_MTU, MTU, ffi.NULL)
        address = ffi.gc(lib.BIO_ADDR_new(), lib.BIO_ADDR_free)
        lib.ERR_clear_error()
        lib.BIO_write(self._in, hello, len(hello))
        if lib.DTLSv1_listen(self._ssl, address) != 1:
            self.failed = True
            return
        self._accept(False)

    def receive(self, data: bytes) -> list[bytes]:
        """Take one datagram of the peer -> the plain ones in it. Bytes that are no part of the session are ignored."""
        if self.failed:
            return []
        if not is_whole(data, self._encrypted_bytes_min):
            return []
        lib = self._context.lib
        lib.BIO_write(self._in, data, len(data))
        if not self.established:
            self._accept(is_encrypted(data))
            if not self.established:
                return []
        found: list[bytes] = []
        while True:
            lib.ERR_clear_error()
            size = lib.SSL_read(self._ssl, _BUFFER, PLAIN_BYTES_MAX)
            if size <= 0:
                self.failed = lib.SSL_get_error(self._ssl, size) not in (openssl.ERROR_WANT_READ, openssl.ERROR_WANT_WRITE)
                break
            found.append(bytes(ffi.buffer(_BUFFER, size)))
        self._flush()
        return found

    def send(self, plain: bytes) -> None:
        """Encrypt one datagram."""
        lib = self._context.lib
        lib.ERR_clear_error()
        if not self.failed and lib.SSL_write(self._ssl, plain, len(plain)) <= 0:
            self.failed = True
        self._flush()

    def close(self) -> None:
        """Send the peer an alert that the session ends."""
        if self.established and not self.failed:
            self._context.lib.ERR_clear_error()
            self._context.lib.SSL_shutdown(self._ssl)
            self._flush()
        self.failed = True

    def timeout_ns(self) -> int | None:
        """Nanoseconds until the last flight of the handshake is sent again; None: nothing waits for an answer."""
        if self.established or self.failed:
            return None
        left = ffi.new("struct timeval *")
        if self._context.lib.SSL_ctrl(self._ssl, openssl.CTRL_GET_TIMEOUT, 0, left) != 1:
            return None
        return int(left.tv_sec) * limits.SECOND_NS + int(left.tv_usec) * 1_000

    def repeat(self) -> None:
        """Send the last flight again if it is time."""
        if not self.failed:
            self._context.lib.ERR_clear_error()
            self._context.lib.SSL_ctrl(self._ssl, openssl.CTRL_HANDLE_TIMEOUT, 0, ffi.NULL)
            self._flush()

    def _accept(self, encrypted: bool) -> None:
        """Go on with the handshake after a datagram, which has an `encrypted` record or none."""
        lib, context = self._context.lib, self._context
        context.host, context.identity, context.key = self._host, None, b""
        lib.ERR_clear_error()
        result = lib.SSL_accept(self._ssl)
        if context.identity is not None:
            self.identity, self.key = context.identity, context.key
        if result == 1:
            self.established = True
            suite = ffi.string(lib.SSL_CIPHER_get_name(lib.SSL_get_current_cipher(self._ssl)))
            short = suite.endswith(b"CCM8") or b"CHACHA20" in suite
            self._encrypted_bytes_min = _SHORT_OVERHEAD if short else _LONG_OVERHEAD
            self.certified = self._common_name()
        elif lib.SSL_get_error(self._ssl, result) not in (openssl.ERROR_WANT_READ, openssl.ERROR_WANT_WRITE):
            self.failed = True
        self._flush()
        waits = encrypted and not self.established and not self.failed
        if waits and self.identity is not None and ffi.string(lib.SSL_state_string(self._ssl)) == _WAITS_FOR_FINISHED:
            # OpenSSL drops a record that it cannot decrypt. Here that is the Finished of a peer with another key.
            self.failed = self.wrong_key = True
            self.out.append(alert(_DECRYPT_ERROR, _ALERT_SEQUENCE))

    def _flush(self) -> None:
        lib = self._context.lib
        size = lib.BIO_ctrl(self._out, openssl.BIO_PENDING, 0, ffi.NULL)
        if size > 0:
            buffer = ffi.new("unsigned char[]", size)
            lib.BIO_read(self._out, buffer, size)
            self.out += datagrams(bytes(ffi.buffer(buffer, size)), MTU)

    def _common_name(self) -> str:
        lib = self._context.lib
        shown = lib.SSL_get1_peer_certificate(self._ssl)
        if shown == ffi.NULL:
            return ""
        shown = ffi.gc(shown, lib.X509_free)
        size = lib.i2d_X509(shown, ffi.NULL)
        buffer = ffi.new("unsigned char[]", size)
        at = ffi.new("unsigned char **", buffer)
        lib.i2d_X509(shown, at)
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        try:
            names = x509.load_der_x509_certificate(bytes(ffi.buffer(buffer, size))).subject
            return next((str(each.value) for each in names.get_attributes_for_oid(NameOID.COMMON_NAME)), "")
        except ValueError:
            return ""
