"""SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side, over users whose password is known.

The password is not sent, and the client verifies that the server knows it too. Channel binding is not offered. Verifiers are
derived from a password when they are first needed, and cached in memory until the password changes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import stringprep
import unicodedata
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, final

from domain.access.access import Authenticated, Challenge, User
from domain.access.principal import Principal
from domain.errors import ErrorCode, Failure
from domain.ports import Entropy

SCRAM_SHA_256: Final = "SCRAM-SHA-256"
ITERATIONS: Final = 4_096
"""RFC 7677, section 4: at least this many."""
MESSAGE_BYTES_MAX: Final = 4_096
VERIFIERS_MAX: Final = 16_384
_PROHIBITED: Final = (
    stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c4,
    stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7, stringprep.in_table_c8, stringprep.in_table_c9,
)  # fmt: skip


class Verifier(NamedTuple):
    """Keys derived from a password: to check the client's proof and to sign the server's (RFC 5802, section 3)."""

    salt: bytes
    stored_key: bytes
    server_key: bytes


def derive(password: str, salt: bytes) -> Verifier:
    """Derive the verifier of a password. Takes 1 to 2 ms."""
    salted = hashlib.pbkdf2_hmac("sha256", prepared(password).encode(), salt, ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return Verifier(salt, hashlib.sha256(client_key).digest(), hmac.digest(salted, b"Server Key", "sha256"))


def prepared(text: str) -> str:
    """SASLprep (RFC 4013) of a stored string. A string with prohibited characters is returned unchanged."""
    mapped = "".join(" " if stringprep.in_table_c12(sign) else sign for sign in text if not stringprep.in_table_b1(sign))
    normal = unicodedata.normalize("NFKC", mapped)
    return text if any(table(sign) for sign in normal for table in _PROHIBITED) else normal


@final
class Verifiers:
    """Cached verifiers by user. Salts derive from a secret of this process, so that unknown users have one as well."""

    def __init__(self) -> None:
        self._secret = b""
        self._known: dict[str, tuple[str, Verifier]] = {}

    def salt(self, name: str, entropy: Entropy) -> bytes:
        """The salt of a name, the same each time."""
        if not self._secret:
            self._secret = entropy.token(32)
        return hmac.digest(self._secret, name.encode(), "sha256")[:16]

    def of(self, user: User, entropy: Entropy) -> Verifier:
        """The verifier of a user's present password."""
        password, found = self._known.get(user.name, ("", None))
        if found is None or password != user.password:
            if len(self._known) >= VERIFIERS_MAX:
                self._known.clear()
            found = derive(user.password, self.salt(user.name, entropy))
            self._known[user.name] = (user.password, found)
        return found


@final
class ScramExchange:
    """`domain.access.access.Exchange`: client-first, server-first, client-final, server-final.

    judge   (name, whether it is proven) -> its principal; a Failure for one that is not, is disabled, or has to wait
    """

    __slots__ = ("_bare", "_entropy", "_first", "_header", "_judge", "_name", "_nonce", "_users", "_verifiers")

    def __init__(
        self,
        users: Mapping[str, User],
        verifiers: Verifiers,
        judge: Callable[[str, bool], Principal | Failure],
        entropy: Entropy,
    ) -> None:
        self._users = users
        self._verifiers = verifiers
        self._judge = judge
        self._entropy = entropy
        self._name = self._bare = self._first = self._nonce = self._header = ""

    def respond(self, data: bytes) -> Challenge | Authenticated | Failure:
        """client-first-message, then client-final-message (RFC 5802, section 7)."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return _broken("it is not UTF-8")
        if len(data) > MESSAGE_BYTES_MAX:
            return _broken(f"it has more than {MESSAGE_BYTES_MAX} bytes")
        return self._begin(text) if not self._first else self._finish(text)

    def _begin(self, text: str) -> Challenge | Failure:
        binding, _, rest = text.partition(",")
        authorised, _, bare = rest.partition(",")
        if binding not in ("n", "y"):
            return _broken("channel binding is not offered")
        name, nonce = _attributes(bare, "nr")
        user = _plain(name)
        if not user or not _is_nonce(nonce):
            return _broken("client-first has no user name or no nonce")
        if authorised not in ("", f"a={name}"):
            return _broken("nobody can act for another")
        self._name = user
        self._header = f"{binding},{authorised},"
        self._bare = bare
        self._nonce = nonce + base64.b64encode(self._entropy.token(18)).decode()
        salt = base64.b64encode(self._verifiers.salt(user, self._entropy)).decode()
        self._first = f"r={self._nonce},s={salt},i={ITERATIONS}"
        return Challenge(self._first.encode())

    def _finish(self, text: str) -> Authenticated | Failure:
        without, _, proof = text.rpartition(",p=")
        binding, nonce = _attributes(without, "cr")
        given = _decoded(proof)
        if binding != base64.b64encode(self._header.encode()).decode() or nonce != self._nonce or len(given) != 32:
            return _broken("client-final does not continue what was begun")
        user = self._users.get(self._name)
        # An unknown user is checked against a random key.
        found = self._verifiers.of(user, self._entropy) if user is not None else Verifier(b"", self._entropy.token(32), b"")
        said = f"{self._bare},{self._first},{without}".encode()
        mask = hmac.digest(found.stored_key, said, "sha256")
        client_key = bytes(one ^ other for one, other in zip(given, mask, strict=True))
        proven = hmac.compare_digest(hashlib.sha256(client_key).digest(), found.stored_key)
        principal = self._judge(self._name, proven)
        if isinstance(principal, Failure):
            return principal
        return Authenticated(principal, b"v=" + base64.b64encode(hmac.digest(found.server_key, said, "sha256")))


def _attributes(text: str, wanted: str) -> list[str]:
    """The values of the first attributes, whose names must be `wanted` in this order; "" for all otherwise."""
    parts = text.split(",")
    if len(parts) < len(wanted) or any(part[:2] != f"{name}=" for name, part in zip(wanted, parts, strict=False)):
        return [""] * len(wanted)
    return [part[2:] for part in parts[: len(wanted)]]


def _plain(name: str) -> str:
    """Decode a saslname: =2C is a comma, =3D an equals sign; "" for any other use of `=`."""
    rest = name.replace("=2C", "").replace("=3D", "")
    return "" if "=" in rest else prepared(name.replace("=2C", ",").replace("=3D", "="))


def _is_nonce(text: str) -> bool:
    return bool(text) and all("!" <= sign <= "~" for sign in text)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _broken(text: str) -> Failure:
    return Failure(ErrorCode.NOT_AUTHENTICATED, f"the message is not {SCRAM_SHA_256}'s: {text}")
