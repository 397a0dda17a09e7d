"""Gateways of store groups, by the reports at one controller: those that do not reach the leader that there is now.

Leaders say in their heartbeats which gateways they have. A gateway that ends its connection to a leader which goes on has been
stopped, or comes back: it is forgotten. One that fell silent is cut off from that leader, and one that the next leader does not
know has not found it. One that has never found a leader is known to none: it says so itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, final

from domain.controller.gateway_search import GatewaySearch
from domain.controller.request import GatewayMissed
from domain.controller.serving import ServingWord

GATEWAYS_KNOWN_MAX: Final = 64
"""Gateways of one store group that are remembered."""
GROUPS_KNOWN_MAX: Final = 1_024
"""Store groups whose gateways are remembered."""
SEARCHING_MAX: Final = 64
"""Gateways without a store that are remembered."""
SEARCHING_MS: Final = 10_000
"""Time for which the word of a gateway holds that it has no store: it says so every two seconds."""
MISSED_MS: Final = 3_600_000
"""Time after which a gateway that does not come back is forgotten: its machine may be gone for good."""


@dataclass(slots=True)
class _Known:
    """A gateway.

    epoch    of the leader that has mentioned it last
    at_ms    time of its last sign of life, as known here, monotonic
    silent   True: signs are missing
    """

    name: str
    epoch: int
    at_ms: int
    silent: bool


@dataclass(slots=True)
class _OfGroup:
    """Gateways of one group.

    epoch   newest one in which a leader has served clients
    known   life -> gateway
    """

    epoch: int = 0
    known: dict[str, _Known] = field(default_factory=dict)


@final
class KnownGateways:
    """The gateways of all groups. `now_ms`: monotonic milliseconds from the caller."""

    def __init__(self) -> None:
        self._groups: dict[str, _OfGroup] = {}
        self._searching: dict[str, tuple[GatewaySearch, int]] = {}

    def searches(self, life: str, search: GatewaySearch, host: str, now_ms: int) -> None:
        """A gateway at `host` says that it has no store. `life`: random text of its process. Of too many the one with
        the oldest report is forgotten."""
        self._searching.pop(life, None)
        if host not in ("", search.name):
            search = search._replace(name=f"{search.name} at {host}")
        if len(self._searching) >= SEARCHING_MAX:
            del self._searching[next(iter(self._searching))]
        self._searching[life] = (search, now_ms)

    def searching(self, now_ms: int) -> list[GatewaySearch]:
        """Gateways that have said in the last SEARCHING_MS that they have no store."""
        for life, (_, at_ms) in list(self._searching.items()):
            if now_ms - at_ms > SEARCHING_MS:
                del self._searching[life]
        return [each._replace(waits_ms=each.waits_ms + now_ms - at_ms) for each, at_ms in self._searching.values()]

    def heard(self, group: str, word: ServingWord, now_ms: int) -> None:
        """A replica has said whether it serves clients, and which gateways it has. A leader of an earlier epoch is ignored."""
        found = self._groups.get(group)
        if word.epoch <= 0 or (found is None and len(self._groups) >= GROUPS_KNOWN_MAX):
            return
        if found is None:
            found = self._groups[group] = _OfGroup()
        if word.epoch < found.epoch:
            return
        found.epoch = word.epoch
        here = {each.life for each in word.gateways}
        begun = {each.name for each in word.gateways if each.life not in found.known}
        for life, known in list(found.known.items()):
            left = known.epoch == word.epoch and not known.silent
            if life not in here and (left or known.name in begun or now_ms - known.at_ms > MISSED_MS):
                del found.known[life]
        for each in word.gateways:
            if each.life in found.known or len(found.known) < GATEWAYS_KNOWN_MAX:
                found.known[each.life] = _Known(each.name, word.epoch, now_ms - each.silent_ms, each.silent_ms > 0)

    def missed(self, now_ms: int) -> list[GatewayMissed]:
        """Gateways that are silent, or that no leader of the newest epoch has mentioned, each name of a group once, for
        MISSED_MS."""
        return [
            GatewayMissed(group, name, age_ms)
            for group, found in sorted(self._groups.items())
            for name, age_ms in sorted(_missed(found, now_ms).items())
        ]

    def forget(self, group: str) -> None:
        """The group is removed."""
        self._groups.pop(group, None)


def _missed(found: _OfGroup, now_ms: int) -> dict[str, int]:
    """Name -> milliseconds since it was last connected."""
    ages: dict[str, int] = {}
    for each in found.known.values():
        age_ms = now_ms - each.at_ms
        if (each.silent or each.epoch < found.epoch) and age_ms <= MISSED_MS:
            ages[each.name] = min(age_ms, ages.get(each.name, age_ms))
    return ages
