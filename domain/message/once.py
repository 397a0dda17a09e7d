"""Keys under which an append is carried out once: asked again with the same key, the store gives the first answer again."""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple, final

KEY_BYTES_MAX: Final = 1_024
"""Length of `OnceKey.key`."""
DIGEST_BYTES: Final = 16


@final
class OnceKey(NamedTuple):
    """The key of one append.

    scope    what the key is unique in, such as a producer or a topic; no U+0000
    key      1 to KEY_BYTES_MAX bytes
    digest   of what is appended: an append of something else under a known key is KEY_REUSED. b"": it is not compared
    """

    scope: str
    key: bytes
    digest: bytes = b""

    @property
    def name(self) -> bytes:
        """Scope and key in one."""
        return self.scope.encode() + b"\x00" + self.key


def digest(*parts: bytes) -> bytes:
    """DIGEST_BYTES that stand for `parts`."""
    whole = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        whole.update(len(part).to_bytes(8, "big"))
        whole.update(part)
    return whole.digest()
