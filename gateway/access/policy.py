"""Policies and their order of precedence (RocketMQ's ACL 2.0, AuthorizationEvaluator of 5.5.0).

Among the matching entries, default ones count only if there is no custom one. The first decides, in this order:

    a kind of resource before `*`;  a literal name before a prefix before all of a kind;  a longer prefix before a shorter one;
    Deny before Allow

Without a matching entry the request is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, final

from domain.access.access import ACTIONS, ALL, ALLOW, ANY, CLUSTER, DENY, EVERY, GROUP, NAMESPACE, TOPIC, AccessPolicy
from gateway.access.source import SourceAddresses

KINDS: Final = {kind.lower(): kind for kind in (CLUSTER, NAMESPACE, TOPIC, GROUP)}
RESOURCE_CHARS_MAX: Final = 512
SOURCES_MAX: Final = 256

LITERAL: Final = 0
PREFIXED: Final = 1
WHOLE: Final = 2


@final
class Entry:
    """One parsed policy. Raises ValueError with a message for the user.

    kind      kind of resource: CLUSTER, NAMESPACE, TOPIC, GROUP or ANY
    shape     LITERAL: one name; PREFIXED: names with a prefix; WHOLE: all names of the kind
    name      the name or prefix
    allow     True: allow; False: deny
    default   True: counts only when no custom policy matches
    rank      sort key of the order of precedence
    """

    __slots__ = ("_actions", "_sources", "allow", "default", "kind", "name", "rank", "shape")

    def __init__(self, policy: AccessPolicy) -> None:
        self.kind, self.shape, self.name = resource(policy.resource)
        unknown = [action for action in policy.actions if action not in ACTIONS]
        if unknown or not policy.actions:
            raise ValueError(f"actions are some of {', '.join(ACTIONS)}, not {', '.join(unknown) or 'none at all'}")
        if policy.decision not in (ALLOW, DENY):
            raise ValueError(f"a decision is {ALLOW} or {DENY}, not {policy.decision!r}")
        if len(policy.sources) > SOURCES_MAX:
            raise ValueError(f"a policy has at most {SOURCES_MAX} source addresses")
        self._actions = frozenset(policy.actions)
        self._sources = [SourceAddresses(text) for text in policy.sources]
        self.allow = policy.decision == ALLOW
        self.default = policy.default
        self.rank = (self.kind == ANY, self.shape, -len(self.name) if self.shape == PREFIXED else 0, self.allow)

    def concerns(self, kind: str, actions: Sequence[str], host: str) -> bool:
        """True when the entry applies to the kind, any of the actions, and the address. Does not check the name."""
        if self.kind not in (kind, ANY):
            return False
        if ALL not in self._actions and self._actions.isdisjoint(actions):
            return False
        return not self._sources or any(source.holds(host) for source in self._sources)

    def names(self, name: str) -> bool:
        """True when the entry applies to the resource `name` of its kind."""
        if self.shape == LITERAL:
            return self.name == name
        return self.shape == WHOLE or name.startswith(self.name)


def resource(text: str) -> tuple[str, int, str]:
    """Parse a resource: `Topic:pre*` -> (Topic, PREFIXED, pre). Raises ValueError."""
    if text == EVERY:
        return ANY, WHOLE, ""
    head, colon, name = text.partition(":")
    kind = KINDS.get(head.lower())
    if kind is None or not colon or not name or len(text) > RESOURCE_CHARS_MAX or "*" in name[:-1]:
        raise ValueError(
            f"resource {text[:80]!r} is neither * nor Cluster:, Namespace:, Topic: or Group: with a name, a prefix* or *"
        )
    if name == EVERY:
        return kind, WHOLE, ""
    return (kind, PREFIXED, name[:-1]) if name[-1] == "*" else (kind, LITERAL, name)


@final
class Entries:
    """All policies of one user, in order of precedence."""

    __slots__ = ("_entries",)

    def __init__(self, policies: Iterable[AccessPolicy]) -> None:
        self._entries = sorted((Entry(policy) for policy in policies), key=lambda entry: (entry.default, entry.rank))

    def allow(self, kind: str, name: str, actions: Sequence[str], host: str) -> bool:
        """True when any of `actions` is allowed on the resource, from `host`. `name` EVERY: on all resources of the kind."""
        if name == EVERY:
            return self._allow_every(kind, actions, host)
        for entry in self._entries:
            if entry.names(name) and entry.concerns(kind, actions, host):
                return entry.allow
        return False

    def _allow_every(self, kind: str, actions: Sequence[str], host: str) -> bool:
        """True when an entry allows the whole kind and no entry denies a part of it."""
        fitting = [entry for entry in self._entries if entry.concerns(kind, actions, host)]
        whole = [entry.allow for entry in fitting if entry.shape == WHOLE]
        return bool(whole) and whole[0] and all(entry.allow for entry in fitting)
