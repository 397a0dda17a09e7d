"""The table `[access]` of the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from domain.access import ALLOW, AccessPolicy, Grant
from domain.errors import ConfigError
from gateway.access.ban import Bans
from gateway.access.policy import Entry
from gateway.access.rule import Rule

USER_PREFIX: Final = "User:"
NAME_CHARS_MAX: Final = 128
PASSWORD_CHARS_MAX: Final = 1_024
_KEYS: Final = (
    "enabled", "anonymous", "jwt_secret", "jwt_public_key", "jwt_user_claim", "jwt_audience", "jwt_issuer",
    "policies", "rules", "banned",
)  # fmt: skip
_POLICY_KEYS: Final = ("subject", "resource", "actions", "decision", "sources", "default")


@dataclass(frozen=True, slots=True)
class AccessConfig:
    """What is in force.

    enabled          access is controlled (`gateway.node.config.Config.controlled` says what else decides that)
    anonymous        the user that clients without credentials are; "": they are refused
    jwt_secret       what HS256 tokens are signed with, jwt_public_key: PEM text for RS256; "": such tokens are refused
    jwt_user_claim   the claim that names the user; jwt_audience, jwt_issuer: what tokens must be for and from, "": anything
    grants           policies of the file, beside those that are stored
    rules            rules over MQTT paths, in their order
    banned           who may not connect by MQTT
    """

    enabled: bool = False
    anonymous: str = ""
    jwt_secret: str = ""
    jwt_public_key: str = ""
    jwt_user_claim: str = "sub"
    jwt_audience: str = ""
    jwt_issuer: str = ""
    grants: Sequence[Grant] = ()
    rules: Sequence[Rule] = ()
    banned: Bans = field(default_factory=Bans)

    @property
    def names_somebody(self) -> bool:
        """True when some client can be admitted without a stored user."""
        return bool(self.anonymous or self.jwt_secret or self.jwt_public_key or self.grants)


def read(table: Mapping[str, object]) -> AccessConfig:
    """The table -> config. Raises ConfigError."""
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _KEYS:
            raise ConfigError(f"access has no setting {key!r}; it has {', '.join(_KEYS)}")
        if key in ("policies", "rules"):
            if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
                raise ConfigError(f"access.{key} is a list of tables: write [[access.{key}]]")
        elif key == "enabled":
            if not isinstance(value, bool):
                raise ConfigError(f"access.enabled is {value!r}: true or false")
        elif key == "banned":
            values[key] = _bans(value)
            continue
        elif not isinstance(value, str):
            raise ConfigError(f"access.{key} is text")
        values[key] = value
    values["rules"] = tuple(_rule(at, each) for at, each in enumerate(values.pop("rules", ())))
    values["grants"] = _grants(values.pop("policies", ()))
    config = AccessConfig(**values)
    if config.jwt_secret and len(config.jwt_secret.encode()) < 32:
        raise ConfigError("access.jwt_secret has less than 32 bytes: HS256 needs as many as its digest (RFC 7518, 3.2)")
    return config


def split(admin: str) -> tuple[str, str]:
    """`NAME:PASSWORD`. Raises ConfigError, without the password in its text."""
    name, colon, password = admin.partition(":")
    fault = name_fault(name) or password_fault(password)
    if not colon or fault:
        raise ConfigError(f"admin is NAME:PASSWORD; {fault or 'there is no colon'}")
    return name, password


def name_fault(name: str) -> str:
    """What is wrong with a user's name, "" when nothing is."""
    if not 0 < len(name) <= NAME_CHARS_MAX or not name.isprintable() or any(sign in name for sign in " :/+#%*,"):
        return f"a user's name has 1 to {NAME_CHARS_MAX} printing characters, none of them blank : / + # % * or ,"
    return ""


def password_fault(password: str) -> str:
    """What is wrong with a password, "" when nothing is."""
    return "" if 0 < len(password) <= PASSWORD_CHARS_MAX else f"a password has 1 to {PASSWORD_CHARS_MAX} characters"


def _bans(value: object) -> Bans:
    try:
        return Bans(_words(value, "access.banned"))
    except ValueError as error:
        raise ConfigError(f"access.banned: {error}") from error


def _rule(at: int, table: Mapping[str, object]) -> Rule:
    try:
        return Rule(table)
    except ValueError as error:
        raise ConfigError(f"access.rules, number {at + 1}: {error}") from error


def _grants(tables: Sequence[Mapping[str, object]]) -> tuple[Grant, ...]:
    found: dict[str, list[AccessPolicy]] = {}
    for at, table in enumerate(tables):
        where = f"access.policies, number {at + 1}"
        unknown = sorted(set(table) - set(_POLICY_KEYS))
        if unknown:
            raise ConfigError(f"{where}: a policy has no {unknown[0]!r}; it has {', '.join(_POLICY_KEYS)}")
        subject = str(table.get("subject", ""))
        user = subject.removeprefix(USER_PREFIX)
        if user == subject or name_fault(user):
            raise ConfigError(f"{where}: subject is {USER_PREFIX} and the user's name")
        policy = AccessPolicy(
            str(table.get("resource", "")),
            _words(table.get("actions", []), f"{where}: actions"),
            str(table.get("decision", ALLOW)),
            _words(table.get("sources", []), f"{where}: sources"),
            table.get("default", False) is True,
        )
        try:
            Entry(policy)
        except ValueError as error:
            raise ConfigError(f"{where}: {error}") from error
        found.setdefault(user, []).append(policy)
    return tuple(Grant(user, tuple(policies)) for user, policies in found.items())


def _words(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ConfigError(f"{where} is a list of words")
    return tuple(value)
