"""Which member of a group gets the next message: the strategies of shared subscriptions, each over those who have room.

A group says its own by the attribute `share.strategy`; the policy's `share_strategy` is for those that say nothing. It is
looked at whenever messages are handed out, so that a change counts from the next message on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from domain import property as properties
from domain.mqtt_session import AT_LEAST_ONCE, AT_MOST_ONCE, MqttSubscription
from domain.record import Record
from gateway.usecase.catalog.policy import ROUND_ROBIN, STICKY, STRATEGIES, STRATEGY
from gateway.usecase.sessions.mqtt_session import MqttSession

LEASES_MAX: Final = 64
"""Messages of groups that one session may have unconfirmed: what a member holds is what the others do not get."""
KEYS_MAX: Final = 16_384
"""Message groups that one line remembers the members of."""

Member = tuple[MqttSession, MqttSubscription]


def strategy_of(attributes: Mapping[str, str], default: str) -> str:
    """The strategy that a group's attributes ask for; `default` where they ask for none that there is."""
    named = attributes.get(STRATEGY, "")
    return named if named in STRATEGIES else default


def is_free(session: MqttSession, subscription: MqttSubscription) -> bool:
    """True when the member can be handed one more. Who does not read is passed over: at QoS 0 it would be lost on the way."""
    connection = session.connection
    if connection is None or connection.stalled:
        return False
    return subscription.level == AT_MOST_ONCE or (session.leases < LEASES_MAX and not session.full)


def room_of(session: MqttSession, subscriptions: Mapping[str, MqttSubscription], most: int) -> int:
    """How many messages the member can be handed, at most `most`."""
    connection = session.connection
    if connection is None or connection.stalled:
        return 0
    for subscription in subscriptions.values():
        if subscription.level == AT_MOST_ONCE:
            return most
    if session.full:
        return 0
    return max(0, min(most, LEASES_MAX - session.leases, session.window - len(session.in_flight)))


def fits(member: Member, record: Record) -> bool:
    """True unless the message is known to be too large for the member's Maximum Packet Size.

    The packet holds the body at least, and hardly more than the record and three bytes a property. Between the two only the
    connection knows. At AT_LEAST_ONCE it may say so afterwards; what cannot be taken back by then needs certainty before.
    """
    session, subscription = member
    most = session.packet_bytes_max
    if most == 0:
        return True
    if subscription.level == AT_LEAST_ONCE:
        return len(record.body) + 4 <= most
    return len(record.data) + 3 * record.properties.count(b"\x02") + 8 <= most


@final
class KeyOwners:
    """Sticky: message group -> the member that has it for as long as it lives. At most KEYS_MAX; the oldest are forgotten."""

    __slots__ = ("_counts", "_owners")

    def __init__(self) -> None:
        self._owners: dict[bytes, MqttSession] = {}
        self._counts: dict[MqttSession, int] = {}

    def choose(self, key: bytes, candidates: list[Member]) -> Member | None:
        """The owner of `key`, made now when there is none: the candidate that owns the fewest. None: it has no room."""
        owner = self._owners.get(key)
        for member in candidates:
            if member[0] is owner:
                return member if is_free(*member) else None
        if owner is not None:
            self._forget(key, owner)
        free = [member for member in candidates if is_free(*member)]
        if not free:
            return None
        chosen = min(free, key=lambda member: self._counts.get(member[0], 0))
        if len(self._owners) >= KEYS_MAX:
            oldest = next(iter(self._owners))
            self._forget(oldest, self._owners[oldest])
        self._owners[key] = chosen[0]
        self._counts[chosen[0]] = self._counts.get(chosen[0], 0) + 1
        return chosen

    def _forget(self, key: bytes, owner: MqttSession) -> None:
        del self._owners[key]
        self._counts[owner] -= 1
        if self._counts[owner] == 0:
            del self._counts[owner]

    def disconnect(self, session: MqttSession) -> None:
        """The member is gone: what it had goes to whoever is next."""
        if self._counts.pop(session, 0):
            self._owners = {key: owner for key, owner in self._owners.items() if owner is not session}


def choose(strategy: str, owners: KeyOwners, candidates: list[Member], stored: bytes) -> Member | None:
    """One of `candidates`, who then stands last among them; None: nobody who may have it has room now."""
    key = properties.find(stored, properties.SHARDING_KEY_START) if strategy == STICKY else b""
    if key:
        return owners.choose(key, candidates)
    best = -1
    for at, (session, subscription) in enumerate(candidates):
        if not is_free(session, subscription):
            continue
        if strategy == ROUND_ROBIN:
            best = at
            break
        if best < 0 or session.leases < candidates[best][0].leases:
            best = at
    if best < 0:
        return None
    member = candidates.pop(best)
    candidates.append(member)
    return member
