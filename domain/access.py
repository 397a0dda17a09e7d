"""Access: credentials and who judges them, users and policies (RocketMQ's ACL 2.0), and the commands that change these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from domain.command import Command
from domain.errors import Failure
from domain.ports import Entropy
from domain.principal import Principal

PUB: Final = "Pub"
SUB: Final = "Sub"
CREATE: Final = "Create"
UPDATE: Final = "Update"
DELETE: Final = "Delete"
GET: Final = "Get"
LIST: Final = "List"
ALL: Final = "All"
ACTIONS: Final = (ALL, PUB, SUB, CREATE, UPDATE, DELETE, GET, LIST)

ANY: Final = "Any"
CLUSTER: Final = "Cluster"
NAMESPACE: Final = "Namespace"
TOPIC: Final = "Topic"
GROUP: Final = "Group"

EVERY: Final = "*"
"""As the name of what is asked for: all of its kind at once."""

ALLOW: Final = "Allow"
DENY: Final = "Deny"
CUSTOM: Final = "Custom"
DEFAULT: Final = "Default"


class Password(NamedTuple):
    """A user name and its password, or a token in the password's place."""

    user: str
    secret: bytes


class Signature(NamedTuple):
    """RocketMQ's proof of a password: HMAC-SHA1 of `content` by it."""

    user: str
    mac: bytes
    content: bytes


class BearerToken(NamedTuple):
    """A JSON Web Token (RFC 7519) in its compact form."""

    text: str


Credentials = Password | Signature | BearerToken


class Challenge(NamedTuple):
    """What somebody has to answer next to prove who they are."""

    data: bytes


class Authenticated(NamedTuple):
    """Somebody has proven who they are; `data` is the authority's own proof, for them."""

    principal: Principal
    data: bytes


class AuthenticationExchange(Protocol):
    """One authentication in several steps, on the server's side (SASL, RFC 4422). Ends with Authenticated or Failure."""

    def respond(self, data: bytes) -> Challenge | Authenticated | Failure:
        """Take what the other side says next. Failure: NOT_AUTHENTICATED."""


class Authority(Protocol):
    """Who judges credentials, for every adapter alike. Answers at once and never raises for what a peer sent."""

    def authenticate(self, credentials: Credentials | None, host: str, certified: str = "") -> Principal | Failure:
        """Who that is. Failure: NOT_AUTHENTICATED.

        `credentials` None: none were given; then `certified` counts, the name in the peer's verified certificate, and without
        one the peer is nobody in particular, which may be allowed. `host`: the peer's address.
        """

    def converse(self, method: str, host: str, entropy: Entropy) -> AuthenticationExchange | None:
        """A proof by `method`, as SASL names it; None: that is not offered. `entropy` makes what nobody may foresee."""


class Need(NamedTuple):
    """One thing that a command needs: any of `actions` on one resource, or on EVERY one of a kind."""

    kind: str
    name: str
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class User:
    """One user. `password` is the secret that signatures are made with, so it is kept as it is."""

    name: str
    password: str
    privileged: bool = False
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """One entry of what a subject may do.

    resource   `*`, `Topic:name`, `Topic:pre*`, `Topic:*`; likewise Group, Cluster, Namespace
    sources    addresses, `10.0.0.0/8`, `10.0.*.*`, `10.0.0.1-10.0.0.9`; empty: from everywhere
    decision   ALLOW or DENY
    default    True: counts only where no custom entry of the subject fits
    """

    resource: str
    actions: tuple[str, ...]
    decision: str = ALLOW
    sources: tuple[str, ...] = ()
    default: bool = False


@dataclass(frozen=True, slots=True)
class Grant:
    """All policies of one user."""

    user: str
    policies: tuple[AccessPolicy, ...]


@dataclass(slots=True)
class CheckAccess(Command):
    """May I? -> Done, or Refused. For what an adapter answers out of itself; never made where access is not controlled."""

    ticket: object
    needs: Sequence[Need]


@dataclass(slots=True)
class Reauthenticate(Command):
    """The connection's client has proven anew that it is this command's `principal` -> Done.

    Refused NOT_ALLOWED when it was somebody else before. Never made where access is not controlled.
    """

    ticket: object
