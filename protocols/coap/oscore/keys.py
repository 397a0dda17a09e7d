"""The keys of a security context, and their use (RFC 8613, section 3.2)."""

from __future__ import annotations

from typing import Final, final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from domain.oscore import ALGORITHMS, Algorithm, OscoreContext
from protocols.coap.oscore import cose

CHACHA: Final = 24


@final
class Keys:
    """Keys derived from a security context: the device's key opens requests, the node's key seals responses.

    algorithm   number of the AEAD algorithm
    device_id   Sender ID of the device
    node_id     Sender ID of this node
    """

    __slots__ = ("_device", "_node", "algorithm", "common_iv", "device_id", "node_id")

    def __init__(self, context: OscoreContext) -> None:
        kind = ALGORITHMS[context.algorithm]
        self.algorithm = context.algorithm
        self.device_id = context.device_id
        self.node_id = context.node_id
        self.common_iv = derived(context, b"", "IV", kind.nonce_bytes)
        self._device = _aead(context.algorithm, kind, derived(context, context.device_id, "Key", kind.key_bytes))
        self._node = _aead(context.algorithm, kind, derived(context, context.node_id, "Key", kind.key_bytes))

    def open(self, piv: bytes, ciphertext: bytes) -> bytes | None:
        """Plaintext of a request (section 8.2); None: it was protected with another context, or changed."""
        data = cose.additional_data(self.algorithm, self.device_id, piv)
        try:
            return self._device.decrypt(cose.nonce(self.common_iv, self.device_id, piv), ciphertext, data)
        except (InvalidTag, ValueError):
            return None

    def seal(self, request_piv: bytes, piv: bytes, plaintext: bytes) -> bytes:
        """Ciphertext of a response to the request with `request_piv` (section 8.3).

        piv   Partial IV of this node; b"": use the nonce of the request, at most once
        """
        data = cose.additional_data(self.algorithm, self.device_id, request_piv)
        if piv:
            nonce = cose.nonce(self.common_iv, self.node_id, piv)
        else:
            nonce = cose.nonce(self.common_iv, self.device_id, request_piv)
        return self._node.encrypt(nonce, plaintext, data)


def derived(context: OscoreContext, ident: bytes, kind: str, size: int) -> bytes:
    """Key or Common IV of a context (section 3.2.1)."""
    info = cose.derivation(ident, context.id_context, context.algorithm, kind, size)
    return HKDF(SHA256(), size, context.salt or None, info).derive(context.secret)


def _aead(number: int, kind: Algorithm, key: bytes) -> AESCCM | AESGCM | ChaCha20Poly1305:
    if number == CHACHA:
        return ChaCha20Poly1305(key)
    return AESCCM(key, kind.tag_bytes) if kind.nonce_bytes == 13 else AESGCM(key)
