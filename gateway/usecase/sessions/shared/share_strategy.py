"""The choice of the member of a shared subscription that gets the next message, among those who can take one.

The attribute `share.strategy` of a group names its strategy; the policy's `share_strategy` is the default. The strategy is
read whenever messages are delivered, so that a change takes effect with the next message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from domain.client.mqtt_session import AT_LEAST_ONCE, AT_MOST_ONCE, MqttSubscription
from domain.message import property as properties
from domain.message.record import Record
from gateway.usecase.sessions.mqtt_session import MqttSession
from gateway.usecase.topics_and_groups.policy import ROUND_ROBIN, STICKY, STRATEGIES, STRATEGY

LEASES_MAX: Final = 64
"""Messages of shared subscriptions that one session may have in flight: other members do not get these messages."""
KEYS_MAX: Final = 16_384
"""Ordering keys whose member one dispatcher remembers."""

Member = tuple[MqttSession, MqttSubscription]


def strategy_of(attributes: Mapping[str, str], default: str) -> str:
    """The strategy that a group's attributes name; `default` when they name none or an unknown one."""
    named = attributes.get(STRATEGY, "")
    return named if named in STRATEGIES else default


def is_free(session: MqttSession, subscription: MqttSubscription) -> bool:
    """True when the member can take a message. A client that does not read cannot: at QoS 0 the message would be lost."""
    connection = session.connection
    if connection is None or connection.stalled:
        return False
    return subscription.level == AT_MOST_ONCE or (session.leases < LEASES_MAX and not session.full)


def room_of(session: MqttSession, subscriptions: Mapping[str, MqttSubscription], most: int) -> int:
    """Number of messages that the member can take, at most `most`."""
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
    """True when the message may fit into the member's Maximum Packet Size.

    A packet is at least as large as the body, and at most as large as the record plus 3 bytes for each property and 8 bytes.
    At AT_LEAST_ONCE the lower bound decides: the connection can decline the delivery afterwards. At other levels the upper
    bound decides, since a delivery cannot be withdrawn.
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
    """Sticky strategy: the member that gets the messages of an ordering key while it is connected.

    Remembers at most KEYS_MAX keys and forgets the oldest.
    """

    __slots__ = ("_counts", "_owners")

    def __init__(self) -> None:
        self._owners: dict[bytes, MqttSession] = {}
        self._counts: dict[MqttSession, int] = {}

    def choose(self, key: bytes, candidates: list[Member]) -> Member | None:
        """The owner of `key`; a new key goes to the candidate with the fewest keys. None: the owner cannot take one now."""
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
        """The member has left: its keys get new owners."""
        if self._counts.pop(session, 0):
            self._owners = {key: owner for key, owner in self._owners.items() if owner is not session}


def choose(strategy: str, owners: KeyOwners, candidates: list[Member], stored: bytes) -> Member | None:
    """The member that gets the message, moved to the end of `candidates`; None: no suitable member can take it now."""
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
