"""Agreement of brokers on users and policies: only entries that all brokers of a cluster report alike are valid."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator, Mapping
from typing import Final, NamedTuple, final

from domain.limits import SECOND_NS
from gateway.apache.users.rights import ToldRights

DIFFERS_NS: Final = 10 * SECOND_NS
"""Time for which a difference is taken for a change that has not come to all brokers yet."""
USER: Final = b"u"
POLICIES: Final = b"p"
_EFFECT: Final = {USER: "is nobody", POLICIES: "has no policies"}

log = logging.getLogger("headgate.access")


class _OfBroker(NamedTuple):
    """The last report of one broker: users and policies, its time (monotonic), and the kinds of which it has entries; Super
    users do not count."""

    values: Mapping[bytes, bytes]
    notified_ns: int
    has: Mapping[bytes, bool]


@final
class Agreement:
    """The reports of the brokers, and the entries on which they agree.

    A user that differs between brokers, or is missing at one, does not exist here; a user with differing policies has none. A
    new difference takes effect after DIFFERS_NS, since tools change one broker after the other; until then the earlier value
    is valid. A broker without normal users, or without policies, while others have some, is new, and its missing entries are
    not compared.

    _since    key that differs -> start of the difference, monotonic
    _logged   keys whose difference was logged
    """

    def __init__(self) -> None:
        self._reports: dict[str, _OfBroker] = {}
        self._since: dict[bytes, int] = {}
        self._logged: set[bytes] = set()

    @property
    def differing(self) -> int:
        """Users about whom brokers differ."""
        return len({key[1:] for key in self._logged})

    def notify(self, broker: str, rights: ToldRights, now_ns: int) -> None:
        """Store the report of a broker: all of its users and policies."""
        has = {USER: rights.normal, POLICIES: any(key.startswith(POLICIES) for key in rights.values)}
        self._reports[broker] = _OfBroker(rights.values, now_ns, has)

    def forget(self, brokers: Container[str], before_ns: int) -> None:
        """Drop reports of brokers that are not in `brokers`, and reports older than `before_ns`."""
        self._reports = {
            name: each for name, each in self._reports.items() if name in brokers and each.notified_ns >= before_ns
        }

    @property
    def known(self) -> bool:
        """True while there is a valid report of a broker."""
        return bool(self._reports)

    def holds(self, held: Mapping[bytes, bytes], now_ns: int) -> dict[bytes, bytes]:
        """What holds now. `held`: what has held until now."""
        found: dict[bytes, bytes] = {}
        differs: dict[bytes, int] = {}
        for kind in (USER, POLICIES):
            compared = self._compared(kind)
            for key in dict.fromkeys(key for each in compared.values() for key in each if key.startswith(kind)):
                values = {each.get(key) for each in compared.values()}
                (value, *others) = values
                if value is not None and not others:
                    found[key] = value
                    continue
                since = differs[key] = self._since.get(key, now_ns)
                before = held.get(key)
                if before is not None and now_ns - since < DIFFERS_NS:
                    found[key] = before
                elif now_ns - since >= DIFFERS_NS or not held:
                    self._notify(key, compared)
        for key in differs:
            # Certificates and `anonymous` name users without a password: who is nobody must have no policies for them.
            if key.startswith(USER) and key not in found:
                found.pop(POLICIES + key[1:], None)
        self._since = differs
        for key in self._logged - differs.keys():
            self._logged.discard(key)
            log.info("brokers tell the same of %s again", _name(key))
        return found

    def _compared(self, kind: bytes) -> dict[str, Mapping[bytes, bytes]]:
        reports = {name: each for name, each in sorted(self._reports.items()) if each.has[kind]} or self._reports
        return {name: each.values for name, each in reports.items()}

    def _notify(self, key: bytes, compared: Mapping[str, Mapping[bytes, bytes]]) -> None:
        if key in self._logged:
            return
        self._logged.add(key)
        what = f"{_name(key)} is" if key.startswith(USER) else f"policies of {_name(key)} are"
        views, effect = "; ".join(_views(key, compared)), _EFFECT[key[:1]]
        log.warning("brokers differ: %s at %s; the user %s here until they tell the same", what, views, effect)


def _views(key: bytes, compared: Mapping[str, Mapping[bytes, bytes]]) -> Iterator[str]:
    """The brokers grouped by the value that they report for `key`, as texts for the log."""
    views: dict[bytes | None, list[str]] = {}
    for broker, values in compared.items():
        views.setdefault(values.get(key), []).append(broker)
    absent = views.pop(None, [])
    yield ", and otherwise at ".join(" and ".join(names) for names in views.values())
    if absent:
        yield f"not at {' and '.join(absent)}"


def _name(key: bytes) -> str:
    return f"User:{key[1:].decode(errors='replace')}"
