"""The settings of all DTLS sessions of a port: certificates, cipher suites, and the keys of users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

from domain.errors import ConfigError
from gateway.runtime.security import openssl
from gateway.runtime.security.openssl import ffi

CIPHERS: Final = (
    "ECDHE-ECDSA-AES128-CCM8:ECDHE-ECDSA-AES128-CCM:ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"
    "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-CHACHA20-POLY1305:"
    "ECDHE-PSK-CHACHA20-POLY1305:PSK-AES128-CCM8:PSK-AES256-CCM8:PSK-AES128-CCM:PSK-AES256-CCM:PSK-AES128-GCM-SHA256:"
    "PSK-AES256-GCM-SHA384:PSK-CHACHA20-POLY1305:@SECLEVEL=0"
)
"""The suites of RFC 7252 (section 9.1.3) first; CCM-8 has a tag of 64 bits, which only level 0 lets pass."""
RANDOM_KEY_BYTES: Final = 32
IDENTITY_BYTES_MAX: Final = 128

KeyOf = Callable[[str, str], bytes | None]
"""(a user's name, the address of the peer) -> the user's key; None: there is no such user, or it has to wait."""


@final
class DtlsContext:
    """One `SSL_CTX`. Freed with this object.

    host       address of the peer of the next handshake step
    identity   the identity that the last handshake step has named; None: none
    key        the key that it was given
    """

    __slots__ = ("_callbacks", "_key_of", "_random", "ctx", "host", "identity", "key", "lib")

    def __init__(self, files: tuple[str, str], client_ca: str, key_of: KeyOf, random: Callable[[int], bytes]) -> None:
        """`files`: certificate chain and key, PEM. Raises ConfigError when OpenSSL does not take them."""
        lib = self.lib = openssl.library()
        self._key_of = key_of
        self._random = random
        self.host = ""
        self.identity: str | None = None
        self.key = b""
        self.ctx: Any = ffi.gc(lib.SSL_CTX_new(lib.DTLS_server_method()), lib.SSL_CTX_free)
        ctx = self.ctx
        lib.ERR_clear_error()
        lib.SSL_CTX_ctrl(ctx, openssl.CTRL_SET_MIN_VERSION, openssl.DTLS_1_2, ffi.NULL)
        lib.SSL_CTX_ctrl(ctx, openssl.CTRL_SET_SESSION_CACHE, 0, ffi.NULL)
        options = openssl.OP_NO_QUERY_MTU | openssl.OP_NO_TICKET | openssl.OP_NO_COMPRESSION | openssl.OP_NO_RENEGOTIATION
        lib.SSL_CTX_set_options(ctx, options | openssl.OP_COOKIE_EXCHANGE | openssl.OP_CIPHER_SERVER_PREFERENCE)
        certificate, key = (name.encode() for name in files)
        taken = (
            lib.SSL_CTX_set_cipher_list(ctx, CIPHERS.encode()) == 1
            and lib.SSL_CTX_use_certificate_chain_file(ctx, certificate) == 1
            and lib.SSL_CTX_use_PrivateKey_file(ctx, key, openssl.FILE_PEM) == 1
        )
        if taken and client_ca:
            taken = lib.SSL_CTX_load_verify_locations(ctx, client_ca.encode(), ffi.NULL) == 1
            lib.SSL_CTX_set_verify(ctx, openssl.VERIFY_PEER, ffi.NULL)
        if not taken:
            raise ConfigError(f"DTLS: OpenSSL does not take the certificate {files[0]}: {openssl.last_error(lib)}")
        self._callbacks = (
            ffi.callback("unsigned int(SSL *, const char *, unsigned char *, unsigned int)", self._psk, error=0),
            ffi.callback("int(SSL *, unsigned char *, unsigned int *)", _no_cookie, error=0),
            ffi.callback("int(SSL *, const unsigned char *, unsigned int)", _any_cookie, error=0),
        )
        lib.SSL_CTX_set_psk_server_callback(ctx, self._callbacks[0])
        lib.SSL_CTX_set_cookie_generate_cb(ctx, self._callbacks[1])
        lib.SSL_CTX_set_cookie_verify_cb(ctx, self._callbacks[2])

    def _psk(self, _ssl: object, identity: Any, psk: Any, most: int) -> int:
        """The key of an identity. One that nobody has meets a random key, and fails as a wrong key does (RFC 4279, 2)."""
        name = bytes(ffi.string(identity, IDENTITY_BYTES_MAX + 1)).decode("utf-8", "replace")
        nobody = self._random(RANDOM_KEY_BYTES)
        known = self._key_of(name, self.host)
        key = known if known and len(known) <= most and len(name) <= IDENTITY_BYTES_MAX else nobody
        self.identity, self.key = name, key
        ffi.memmove(psk, key, len(key))
        return len(key)


def _no_cookie(_ssl: object, _cookie: object, _size: object) -> int:
    """Cookies are made in `hello`, before there is a session."""
    return 0


def _any_cookie(_ssl: object, _cookie: object, _size: int) -> int:
    """The cookie was checked in `hello`."""
    return 1
