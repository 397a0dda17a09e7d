"""Access control: credentials, the authority that checks them, and users with their policies (RocketMQ's ACL 2.0)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from domain.access.principal import Principal
from domain.command import TicketedCommand
from domain.errors import ErrorCode, Failure
from domain.ports import Entropy

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
"""As the name of a resource: all resources of its kind."""

ALLOW: Final = "Allow"
DENY: Final = "Deny"
CUSTOM: Final = "Custom"
DEFAULT: Final = "Default"


class Password(NamedTuple):
    """A user name and its password, or a token in place of the password."""

    user: str
    secret: bytes


class SharedKey(NamedTuple):
    """A user whose password was the pre-shared key of a handshake that has succeeded. It is a password, and no guess."""

    user: str
    secret: bytes


class Signature(NamedTuple):
    """RocketMQ's signature of a request: `mac` is the HMAC-SHA1 of `content` with the user's password as the key."""

    user: str
    mac: bytes
    content: bytes


class BearerToken(NamedTuple):
    """A JSON Web Token in its compact form (RFC 7519)."""

    text: str


class ContextProof(NamedTuple):
    """The user whose security context has protected a request (RFC 8613), with `OscoreContext.digest` of that context."""

    user: str
    digest: str


_WAYS: Final = {
    "coap": "connect by DTLS, or protect requests by OSCORE",
    "http": "send Authorization, Basic with a user's name and password or Bearer with a token",
    "mqtt": "give a user's name and password in CONNECT",
}
"""How a client of a protocol says who it is. RocketMQ's clients get the words of its brokers."""


def no_credentials(protocol: str) -> Failure:
    """NOT_AUTHENTICATED for a peer that has sent no credentials, by `protocol`, a label as of `ClientConnection`."""
    way = _WAYS.get(protocol)
    if way is None:
        return Failure(ErrorCode.NOT_AUTHENTICATED, "there are no credentials: username cannot be null.")
    text = f"there are no credentials: {way}; or let [access] anonymous name the user of clients without credentials"
    return Failure(ErrorCode.NOT_AUTHENTICATED, text)


@dataclass(frozen=True, slots=True)
class SlowedLogin(Failure):
    """The refusal (RATE) of a login that was not looked at, since too many before it have failed.

    retry_s   seconds after which one is looked at
    """

    retry_s: int = 1


Credentials = Password | SharedKey | Signature | BearerToken | ContextProof


class Challenge(NamedTuple):
    """The next message of an authentication exchange to the client."""

    data: bytes


class Authenticated(NamedTuple):
    """The successful end of an authentication exchange.

    data        the last message of the exchange to the client
    """

    principal: Principal
    data: bytes


class AuthenticationExchange(Protocol):
    """One authentication in several steps, on the server's side (SASL, RFC 4422). Its end is Authenticated or Failure."""

    def respond(self, data: bytes) -> Challenge | Authenticated | Failure:
        """Take the next message of the client. Failure: NOT_AUTHENTICATED, or a SlowedLogin."""


class Authority(Protocol):
    """Checks credentials, for every adapter alike. Answers at once and never raises, whatever the peer sent."""

    def authenticate(self, credentials: Credentials | None, host: str, certified: str = "") -> Principal | Failure:
        """The principal of a peer. Failure: NOT_AUTHENTICATED, or a SlowedLogin.

        credentials   None: the peer sent none
        host          address of the peer, without port
        certified     the name in the peer's verified certificate, "": it has none; counts only without credentials

        A peer with neither is anonymous, which the configuration may allow.
        """

    def converse(self, method: str, host: str, entropy: Entropy) -> AuthenticationExchange | None:
        """Begin an exchange by a SASL mechanism; None: the mechanism is not offered.

        method    name of the mechanism
        host      address of the peer, without port
        entropy   source of nonces
        """


class Need(NamedTuple):
    """One right that a command needs: any of `actions` on one resource.

    kind      TOPIC, GROUP, CLUSTER or NAMESPACE
    name      name of the resource, or EVERY
    """

    kind: str
    name: str
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class User:
    """One user.

    password     the password itself: signatures are made with it
    privileged   True: a Super user, who may do everything
    enabled      False: it cannot log in
    """

    name: str
    password: str
    privileged: bool = False
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """One policy of a user.

    resource   `*`, `Topic:name`, `Topic:prefix*`, `Topic:*`; likewise Group, Cluster and Namespace
    actions    of ACTIONS
    decision   ALLOW or DENY
    sources    addresses: `10.0.0.0/8`, `10.0.*.*`, `10.0.0.1-10.0.0.9`; empty: any address
    default    True: counts only where no custom policy of the user matches
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
class CheckAccess(TicketedCommand):
    """Check rights for an answer that an adapter gives itself -> Done. Not sent where access is not controlled.

    needs   all of them must be granted

    Errors: NOT_ALLOWED.
    """

    needs: Sequence[Need]


@dataclass(slots=True)
class Reauthenticate(TicketedCommand):
    """The client of the connection has authenticated again, as this command's `principal` -> Done.

    Not sent where access is not controlled. Errors: NOT_ALLOWED (it was another user before).
    """
