"""Strategies of shared subscriptions: which member can take a message, and who gets those of an ordering key.

The attribute `share.strategy` of a group names its strategy; the policy's `share_strategy` is the default. The strategy is
read whenever messages are delivered, so that a change takes effect with the next message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from domain.client.mqtt_session import AT_LEAST_ONCE, AT_MOST_ONCE, MqttSubscription
from domain.message.record import Record
from gateway.usecase.sessions.mqtt_session import MqttSession
from gateway.usecase.topics_and_groups.policy import STRATEGIES, STRATEGY

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
    return session.packet_bytes_max == 0 or bytes_of(record, subscription.level == AT_LEAST_ONCE) <= session.packet_bytes_max


def bytes_of(record: Record, declinable: bool) -> int:
    """The Maximum Packet Size that a member needs: of a delivery that can be declined at least, of another one for sure."""
    if declinable:
        return len(record.body) + 4
    return len(record.data) + 3 * record.properties.count(b"\x02") + 8


@final
class KeyOwners:
    """Sticky strategy: the member that gets the messages of an ordering key while it is connected.

    Remembers at most `most` keys and forgets the oldest.
    """

    __slots__ = ("_keys", "_most", "_owners")

    def __init__(self, most: int = KEYS_MAX) -> None:
        self._most = most
        self._owners: dict[bytes, MqttSession] = {}
        self._keys: dict[MqttSession, dict[bytes, None]] = {}

    def owner(self, key: bytes) -> MqttSession | None:
        """The owner of a key, None when it has none."""
        return self._owners.get(key)

    def keys(self, session: MqttSession) -> int:
        """Number of keys that a member owns."""
        return len(self._keys.get(session, ()))

    def assign(self, key: bytes, session: MqttSession) -> MqttSession | None:
        """Make a member the owner of a key without one -> the member that has lost a key because there are too many."""
        lost: MqttSession | None = None
        if len(self._owners) >= self._most:
            lost = self.forget(next(iter(self._owners)))
        self._owners[key] = session
        self._keys.setdefault(session, {})[key] = None
        return lost

    def forget(self, key: bytes) -> MqttSession:
        """Take a key from its owner, which is returned."""
        owner = self._owners.pop(key)
        keys = self._keys[owner]
        del keys[key]
        if not keys:
            del self._keys[owner]
        return owner

    def disconnect(self, session: MqttSession) -> None:
        """The member has left: its keys get new owners."""
        for key in self._keys.pop(session, ()):
            del self._owners[key]
