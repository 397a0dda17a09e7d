"""The table `[access]` of the configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from msgspec import Meta

from domain.access.access import ALLOW, AccessPolicy, Grant
from domain.errors import ConfigError
from gateway.access.ban import Bans
from gateway.access.policy import Entry
from gateway.access.rule import Rule, RuleTable

USER_PREFIX: Final = "User:"
NAME_CHARS_MAX: Final = 128
PASSWORD_CHARS_MAX: Final = 1_024
JWT_SECRET_BYTES_MIN: Final = 32
CLUSTER_USERS: Final = "cluster"
"""Value of `users`: those of the Apache RocketMQ cluster behind the gateway."""
Secret = Annotated[str, Meta(extra={"secret": True})]
"""Text that is never printed."""


@dataclass(frozen=True, slots=True)
class PolicyTable:
    """One `[[access.policies]]`: actions that one user may do, or may not do, with one resource.

    subject    `User:` and the user's name
    resource   type and name of the resource, such as `Topic:orders`
    actions    actions that the policy allows or denies
    decision   Allow or Deny
    sources    addresses and networks of the client that the policy applies to; empty: all
    default    true: the policy counts only when no other policy of the user matches
    """

    subject: str = ""
    resource: str = ""
    actions: tuple[str, ...] = ()
    decision: str = ALLOW
    sources: tuple[str, ...] = ()
    default: bool = False


@dataclass(frozen=True, slots=True)
class AccessTable:
    """The table `[access]` as given.

    enabled          true: access is controlled; unset: access is controlled when there is an admin, or `users` is cluster
    users            own: users and policies are kept by Headgate; cluster: before an Apache RocketMQ cluster, they are those of
                     the cluster, and are changed there
    users_kept_s     seconds for which users and policies of the cluster stay in use while no broker answers; nobody is
                     admitted after that
    anonymous        name of the user that clients without credentials have; "": such clients are refused
    jwt_secret       key of HS256 tokens, at least 32 bytes; "": such tokens are refused
    jwt_public_key   public key of RS256 tokens, PEM text; "": such tokens are refused
    jwt_user_claim   claim that contains the user's name
    jwt_audience     required audience (`aud`) of tokens; "": any
    jwt_issuer       required issuer (`iss`) of tokens; "": any
    jwt_expiry_required  true: tokens without an expiry (`exp`) are refused; false: they do not expire
    sessions_by_user  true: users with the same client id have sessions of their own in MQTT; false: a user who connects
                     with the client id of another one ends that one's session
    policies         `[[access.policies]]`: policies in addition to the stored ones
    rules            `[[access.rules]]`: rules over MQTT paths, in the order in which they are tried
    banned           who may not connect by MQTT: `client:ID`, `user:NAME`, `session:NAME/ID` or `address:RANGE`
    """

    enabled: bool | None = None
    users: Literal["own", "cluster"] = "own"
    users_kept_s: Annotated[int, Meta(ge=10, le=86_400)] = 600
    anonymous: str = ""
    jwt_secret: Secret = ""
    jwt_public_key: str = ""
    jwt_user_claim: str = "sub"
    jwt_audience: str = ""
    jwt_issuer: str = ""
    jwt_expiry_required: bool = False
    sessions_by_user: bool = True
    policies: tuple[PolicyTable, ...] = ()
    rules: tuple[RuleTable, ...] = ()
    banned: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises ValueError for a `jwt_secret` of less than 32 bytes, and for users of a cluster that nothing checks."""
        if self.users == CLUSTER_USERS and self.enabled is False:
            raise ValueError(
                'enabled is false and users is "cluster": access is controlled by the users of the cluster, or not'
            )
        if self.jwt_secret and len(self.jwt_secret.encode()) < JWT_SECRET_BYTES_MIN:
            raise ValueError(
                f"jwt_secret has less than {JWT_SECRET_BYTES_MIN} bytes: HS256 needs as many as its digest (RFC 7518, 3.2)"
            )


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """The table `[access]` with policies, rules and bans parsed; the other attributes are those of AccessTable.

    grants   policies of the configuration, by user
    """

    anonymous: str = ""
    jwt_secret: str = ""
    jwt_public_key: str = ""
    jwt_user_claim: str = "sub"
    jwt_audience: str = ""
    jwt_issuer: str = ""
    jwt_expiry_required: bool = False
    grants: Sequence[Grant] = ()
    rules: Sequence[Rule] = ()
    banned: Bans = field(default_factory=Bans)
    sessions_by_user: bool = True

    @staticmethod
    def of(table: AccessTable) -> AccessSettings:
        """Parse the table. Raises ConfigError for a policy or a ban that is not valid."""
        return AccessSettings(
            table.anonymous,
            table.jwt_secret,
            table.jwt_public_key,
            table.jwt_user_claim,
            table.jwt_audience,
            table.jwt_issuer,
            table.jwt_expiry_required,
            _grants(table.policies),
            tuple(Rule(each) for each in table.rules),
            _bans(table.banned),
            table.sessions_by_user,
        )

    @property
    def names_somebody(self) -> bool:
        """True when a client can be authenticated without a stored user."""
        return bool(self.anonymous or self.jwt_secret or self.jwt_public_key or self.grants)


def split(admin: str) -> tuple[str, str]:
    """Split `NAME:PASSWORD`. Raises ConfigError, whose text does not contain the password."""
    name, colon, password = admin.partition(":")
    fault = name_fault(name) or password_fault(password)
    if not colon or fault:
        raise ConfigError(f"admin is NAME:PASSWORD; {fault or 'there is no colon'}")
    return name, password


def name_fault(name: str) -> str:
    """The error text for a user's name; "": the name is valid."""
    if not 0 < len(name) <= NAME_CHARS_MAX or not name.isprintable() or any(sign in name for sign in " :/+#%*,"):
        return f"a user's name has 1 to {NAME_CHARS_MAX} printing characters, none of them blank : / + # % * or ,"
    return ""


def password_fault(password: str) -> str:
    """The error text for a password; "": the password is valid."""
    return "" if 0 < len(password) <= PASSWORD_CHARS_MAX else f"a password has 1 to {PASSWORD_CHARS_MAX} characters"


def _bans(words: Sequence[str]) -> Bans:
    try:
        return Bans(words)
    except ValueError as error:
        raise ConfigError(f"access.banned: {error}") from error


def _grants(tables: Sequence[PolicyTable]) -> tuple[Grant, ...]:
    found: dict[str, list[AccessPolicy]] = {}
    for at, table in enumerate(tables):
        user = table.subject.removeprefix(USER_PREFIX)
        if user == table.subject or name_fault(user):
            raise ConfigError(f"access.policies[{at}]: subject is {USER_PREFIX} and the user's name")
        policy = AccessPolicy(table.resource, table.actions, table.decision, table.sources, table.default)
        try:
            Entry(policy)
        except ValueError as error:
            raise ConfigError(f"access.policies[{at}]: {error}") from error
        found.setdefault(user, []).append(policy)
    return tuple(Grant(user, tuple(policies)) for user, policies in found.items())
