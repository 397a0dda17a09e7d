"""Rules over MQTT paths, which are finer than policies over topics: `sensors/%c/#` for the client with this id.

Rules are checked in their order, before the policies. The first that matches decides; without one the policies decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, final

from domain.access import ALLOW, DENY, PUB, SUB
from domain.filter.path import is_filter, matches

CLIENT: Final = "%c"
USER: Final = "%u"
_KEYS: Final = frozenset(("filter", "actions", "decision", "users", "clients", "exact", "code"))


@final
class Rule:
    """One rule.

    filter     MQTT topic filter; `%c` in it stands for the client id, `%u` for the user name
    personal   True: `filter` has `%c` or `%u`
    allow      True: allow; False: deny
    actions    Pub, Sub or both
    users      users that the rule applies to; empty: all
    clients    client ids that the rule applies to; empty: all
    exact      for denials of Sub. True: refuse only filters that match nothing but denied paths; False: refuse filters that
               match any denied path
    code       MQTT reason code of a refusal, 128 to 255; 0: the usual one
    """

    __slots__ = ("actions", "allow", "clients", "code", "exact", "filter", "personal", "users")

    def __init__(self, table: Mapping[str, object]) -> None:
        """Parse a table of the configuration. Raises ValueError with a message for the user."""
        unknown = sorted(set(table) - _KEYS)
        if unknown:
            raise ValueError(f"a rule has no {unknown[0]!r}; it has {', '.join(sorted(_KEYS))}")
        pattern = table.get("filter")
        if not isinstance(pattern, str) or not is_filter(pattern):
            raise ValueError(f"filter {pattern!r} is no MQTT topic filter")
        decision = table.get("decision", ALLOW)
        if decision not in (ALLOW, DENY):
            raise ValueError(f"decision is {ALLOW} or {DENY}, not {decision!r}")
        exact, code = table.get("exact", False), table.get("code", 0)
        if not isinstance(exact, bool):
            raise ValueError("exact is true or false")
        if isinstance(code, bool) or not isinstance(code, int) or not (code == 0 or 0x80 <= code <= 0xFF):
            raise ValueError("code is a reason code of MQTT from 128 to 255")
        self.filter = pattern
        self.personal = CLIENT in pattern or USER in pattern
        self.allow = decision == ALLOW
        self.actions = _words(table, "actions", (PUB, SUB))
        if not self.actions <= {PUB, SUB}:
            raise ValueError(f"actions are {PUB} and {SUB}")
        self.users = _words(table, "users", ())
        self.clients = _words(table, "clients", ())
        self.exact = exact
        self.code = code

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


def _words(table: Mapping[str, object], key: str, absent: tuple[str, ...]) -> frozenset[str]:
    given = table.get(key, list(absent))
    if not isinstance(given, list) or not all(isinstance(word, str) for word in given):
        raise ValueError(f"{key} is a list of words")
    return frozenset(given)


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
