"""Security contexts of OSCORE (RFC 8613): the credentials of users whose devices protect single CoAP messages."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

SECRET_BYTES_MIN: Final = 16
SECRET_BYTES_MAX: Final = 64
SALT_BYTES_MAX: Final = 64
ID_CONTEXT_BYTES_MAX: Final = 64


class Algorithm(NamedTuple):
    """An AEAD algorithm of COSE (RFC 9053, section 4).

    name          its name there
    nonce_bytes   size of a nonce; identifiers have at most 6 bytes less (RFC 8613, section 3.3)
    tag_bytes     size of the tag behind the ciphertext
    """

    name: str
    key_bytes: int
    nonce_bytes: int
    tag_bytes: int


AES_CCM_16_64_128: Final = 10
"""The algorithm that every device has (RFC 8613, section 3.2)."""
ALGORITHMS: Final[dict[int, Algorithm]] = {
    1: Algorithm("A128GCM", 16, 12, 16),
    3: Algorithm("A256GCM", 32, 12, 16),
    AES_CCM_16_64_128: Algorithm("AES-CCM-16-64-128", 16, 13, 8),
    11: Algorithm("AES-CCM-16-64-256", 32, 13, 8),
    24: Algorithm("ChaCha20/Poly1305", 32, 12, 16),
    30: Algorithm("AES-CCM-16-128-128", 16, 13, 16),
    31: Algorithm("AES-CCM-16-128-256", 32, 13, 16),
}
"""By their numbers."""


@dataclass(frozen=True, slots=True)
class OscoreContext:
    """A security context of OSCORE (RFC 8613, section 3.2): the credentials of one user. Its device has the other side of it.

    device_id    Sender ID of the device: 0 to 7 bytes
    node_id      Sender ID of this node: 0 to 7 bytes, another one
    secret       Master Secret; never disclosed
    salt         Master Salt, b"": none; never disclosed
    id_context   ID Context, None: there is none
    algorithm    number of the AEAD algorithm in COSE
    """

    user: str
    device_id: bytes
    node_id: bytes
    secret: bytes = field(repr=False)
    salt: bytes = field(default=b"", repr=False)
    id_context: bytes | None = None
    algorithm: int = AES_CCM_16_64_128

    @property
    def digest(self) -> str:
        """16 characters that change with any field."""
        parts = (self.user.encode(), self.device_id, self.node_id, self.secret, self.salt, self.id_context or b"")
        text = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        rest = b"%d %d" % (self.algorithm, self.id_context is not None)
        return hashlib.sha256(text + rest).hexdigest()[:16]

    @property
    def fault(self) -> str:
        """Why the context cannot be used; "": it can."""
        algorithm = ALGORITHMS.get(self.algorithm)
        if algorithm is None:
            return f"algorithm is one of {', '.join(str(number) for number in ALGORITHMS)}"
        most = algorithm.nonce_bytes - 6
        if len(self.device_id) > most or len(self.node_id) > most:
            return f"device_id and node_id have at most {most} bytes"
        if self.device_id == self.node_id:
            return "device_id and node_id are two"
        if not SECRET_BYTES_MIN <= len(self.secret) <= SECRET_BYTES_MAX:
            return f"secret has {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes"
        if len(self.salt) > SALT_BYTES_MAX or len(self.id_context or b"") > ID_CONTEXT_BYTES_MAX:
            return f"salt has at most {SALT_BYTES_MAX} bytes, id_context {ID_CONTEXT_BYTES_MAX}"
        return ""


class OscoreContexts(Protocol):
    """The security contexts of all users. Answers at once."""

    def find(self, device_id: bytes, id_context: bytes | None) -> OscoreContext | None:
        """The context with these identifiers; None: there is none."""

    def holder(self, user: str) -> int:
        """The number (`HoldOscoreContext`) of the process that executes the requests of this user's context; 0: none yet."""
