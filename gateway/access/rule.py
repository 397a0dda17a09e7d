"""Rules over MQTT paths, which are finer than policies over topics: `sensors/%c/#` for the client with this id.

Rules are checked in their order, before the policies. The first that matches decides; without one the policies decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, final

from msgspec import Meta

from domain.access.access import ALLOW, PUB, SUB
from domain.filter.path_matching import is_filter, matches

CLIENT: Final = "%c"
USER: Final = "%u"


@dataclass(frozen=True, slots=True)
class RuleTable:
    """One `[[access.rules]]`: who may publish to and subscribe to the paths that a filter matches.

    filter     an MQTT filter; `%c` in it is the client id, `%u` the user name
    actions    Pub, Sub or both
    decision   Allow or Deny
    users      users that the rule applies to; empty: all
    clients    client ids that the rule applies to; empty: all
    exact      a denial of Sub concerns only filters that ask for nothing but what is denied; otherwise every filter that could
               match something denied is refused
    code       reason code in the refusal to MQTT clients, from 128 to 255; 0: the usual one
    """

    filter: str = ""
    actions: tuple[Literal["Pub", "Sub"], ...] = (PUB, SUB)
    decision: Literal["Allow", "Deny"] = ALLOW
    users: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    exact: bool = False
    code: Annotated[int, Meta(ge=0, le=0xFF)] = 0

    def __post_init__(self) -> None:
        """Raises ValueError for a malformed filter, and for a reason code of success."""
        if not is_filter(self.filter):
            raise ValueError(f"filter {self.filter!r} is no MQTT topic filter")
        if 0 < self.code < 0x80:
            raise ValueError("code is a reason code of MQTT from 128 to 255")


@final
class Rule:
    """A rule in force; the attributes are those of its table, `allow` is true where its decision is Allow.

    personal   the filter has the client id or the user name in it
    """

    __slots__ = ("actions", "allow", "clients", "code", "exact", "filter", "personal", "users")

    def __init__(self, table: RuleTable) -> None:
        self.filter = table.filter
        self.personal = CLIENT in table.filter or USER in table.filter
        self.allow = table.decision == ALLOW
        self.actions = frozenset(table.actions)
        self.users = frozenset(table.users)
        self.clients = frozenset(table.clients)
        self.exact = table.exact
        self.code = table.code

    def pattern(self, user: str, client: str) -> str:
        """The filter for one client; "": the rule does not apply to it.

        A client id or user name with a separator or wildcard would change the filter: a rule that allows does not apply, and
        one that denies has `+` in that level.
        """
        if (self.users and user not in self.users) or (self.clients and client not in self.clients):
            return ""
        if not self.personal:
            return self.filter
        levels: list[str] = []
        for level in self.filter.split("/"):
            said = level
            for mark, word in ((CLIENT, client), (USER, user)):
                if mark not in level:
                    continue
                if not word or word[0] == "$" or any(sign in word for sign in "/+#%"):
                    if self.allow:
                        return ""
                    said = "+"
                    break
                said = said.replace(mark, word)
            levels.append(said)
        return "/".join(levels)


def decide(rules: Sequence[Rule], action: str, path: str, user: str, client: str) -> Rule | None:
    """The first rule that matches `path`, which is a filter when `action` is Sub; None: no rule."""
    for rule in rules:
        if action not in rule.actions:
            continue
        pattern = rule.pattern(user, client)
        if not pattern:
            continue
        if action == PUB:
            fits = matches(pattern, path)
        else:
            fits = covers(pattern, path) if rule.allow or rule.exact else overlap(pattern, path)
        if fits:
            return rule
    return None


def covers(wide: str, narrow: str) -> bool:
    """True when every path that the filter `narrow` matches is matched by the filter `wide` too."""
    if wide[:1] in ("+", "#") and narrow.startswith("$"):
        return False
    ours, theirs = wide.split("/"), narrow.split("/")
    for at, level in enumerate(ours):
        if level == "#":
            return True
        if at >= len(theirs) or theirs[at] == "#" or (level != "+" and level != theirs[at]):
            return False
    return len(ours) == len(theirs)


def overlap(one: str, other: str) -> bool:
    """True when some path is matched by both filters."""
    for first, second in ((one, other), (other, one)):
        if first[:1] in ("+", "#") and second.startswith("$"):
            return False
    ours, theirs = one.split("/"), other.split("/")
    for mine, yours in zip(ours, theirs, strict=False):
        if "#" in (mine, yours):
            return True
        if mine != yours and "+" not in (mine, yours):
            return False
    longer = max(ours, theirs, key=len)
    return len(ours) == len(theirs) or longer[min(len(ours), len(theirs))] == "#"
