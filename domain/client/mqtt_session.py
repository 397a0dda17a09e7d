"""MQTT sessions as the gateway sees them: commands of the protocol, events that answer them, and what both carry.

A session has subscriptions, a position in each queue of the log, and an in-flight window: deliveries that the client has not
confirmed, each in a numbered slot. A session that outlives its connection is stored. Messages that arrive while the client is
disconnected are not copied: the gateway reads them from the log when the client reconnects. See MQTT 5, 4.1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, final

from domain.address import share_group
from domain.command import Command, TicketedCommand
from domain.delivery.routed import ConfirmDeliveries as ConfirmDeliveries  # noqa: PLC0414, those who import it know no other place
from domain.delivery.routed import Deliveries as Deliveries  # noqa: PLC0414
from domain.delivery.routed import Delivery
from domain.errors import ErrorCode, Failure
from domain.event import Event, TicketedEvent
from domain.message.message import Message
from domain.message.send import SendOnce as SendOnce  # noqa: PLC0414

AT_MOST_ONCE: Final = 0
AT_LEAST_ONCE: Final = 1
EXACTLY_ONCE: Final = 2

RETAINED_ALWAYS: Final = 0
RETAINED_IF_NEW: Final = 1
RETAINED_NEVER: Final = 2

EXPIRY_NEVER: Final = 0xFFFFFFFF
SHARED: Final = "$share/"
SLOT_MAX: Final = 65_535


@final
@dataclass(slots=True, eq=False)
class MqttSubscription:
    """One subscription of a session (MQTT 5, 3.8.3.1): a topic filter and its options.

    pattern          the topic filter, without `$share/GROUP/`
    group            share name of a shared subscription, for whose consumer group access is judged; "": not shared, the session
                     gets every message
    level            maximum QoS of deliveries: AT_MOST_ONCE, AT_LEAST_ONCE or EXACTLY_ONCE
    no_local         True: messages that this client published itself are not delivered
    as_published     True: deliveries carry the RETAIN flag that the publisher set
    retain_handling  when retained messages are delivered on SUBSCRIBE: RETAINED_ALWAYS, _IF_NEW, _NEVER
    identifier       Subscription Identifier, sent with each delivery; 0: none
    since            physical log offset: earlier records are not delivered (the gateway sets it)
    refused          why access control refuses this subscription (the gateway sets it); None: it does not
    """

    pattern: str
    level: int
    no_local: bool = False
    as_published: bool = False
    retain_handling: int = RETAINED_ALWAYS
    identifier: int = 0
    since: int = 0
    group: str = ""
    refused: Failure | None = field(default=None, init=False)

    @property
    def name(self) -> str:
        """The key within a session: the pattern, or `$share/GROUP/PATTERN` for a shared subscription."""
        return shared_name(self.group, self.pattern) if self.group else self.pattern

    @property
    def consumer_group(self) -> str:
        """The group of a shared subscription: messages are leased to it, and settled by ConfirmDeliveries."""
        return share_group(self.group, self.pattern)


def shared_name(group: str, pattern: str) -> str:
    """The filter of a shared subscription as MQTT writes it (MQTT 5, 4.8.2)."""
    return f"{SHARED}{group}/{pattern}"


UNSURE: Final = frozenset({ErrorCode.STORE_UNAVAILABLE, ErrorCode.FLUSH_TIMEOUT, ErrorCode.RATE, ErrorCode.MESSAGE_TOO_LARGE})
"""Failures of messages for which MQTT 5 has no acknowledgement."""


class EndsAt(IntEnum):
    """Refusals of messages at which the protocol ends the connection. The client then sends again what was not acknowledged.

    NONE     each message has an answer of its own
    ALL      MQTT 3.1.1: an acknowledgement cannot refuse
    UNSURE   MQTT 5: those with a code of UNSURE
    """

    NONE = 0
    ALL = 1
    UNSURE = 2

    def covers(self, failure: Failure) -> bool:
        """True when the connection ends at this refusal."""
        return self is EndsAt.ALL or (self is EndsAt.UNSURE and failure.code in UNSURE)


@dataclass(slots=True)
class Will:
    """A will message (MQTT 5, 3.1.2.5).

    message    what the gateway publishes when the connection ends without a DISCONNECT
    delay_s    Will Delay Interval in seconds
    expiry_s   Message Expiry Interval of the will in seconds; -1: none
    host       address of its user, without port; with `registered` set by the gate where access is controlled, and stored
    registered True: its user is one of the user table, and what it may do ends with that user
    """

    message: Message
    delay_s: int = 0
    expiry_s: int = -1
    host: str = field(default="", init=False)
    registered: bool = field(default=False, init=False)


@dataclass(slots=True)
class Attach(TicketedCommand):
    """Start or resume the session of a client on this connection -> Attached; Refused when the store cannot write.

    An older connection of the same client receives SessionTakenOver and has no session any more (MQTT 5, 3.1.4).

    clean_start       True: discard the stored session of the client
    expiry_s          Session Expiry Interval in seconds; 0: the session ends with the connection; EXPIRY_NEVER
    window            Receive Maximum: deliveries above AT_MOST_ONCE that may be unconfirmed, 1 to SLOT_MAX
    packet_bytes_max  Maximum Packet Size of the client in bytes; 0: no limit
    address           "host:port" of the client, for tools; "": unknown
    ends_at           goes to another node with the client, not with this command
    """

    client_id: str
    clean_start: bool
    expiry_s: int
    window: int
    will: Will | None = None
    packet_bytes_max: int = 0
    address: str = ""
    ends_at: EndsAt = field(default=EndsAt.NONE, init=False)


@dataclass(slots=True)
class Detach(Command):
    """DISCONNECT from the client. No answer; the connection ends after it.

    publish_will   True: the will is published although the client has disconnected (reason code 0x04)
    expiry_s       replaces the Session Expiry Interval of Attach, in seconds; -1: it stays
    """

    publish_will: bool = False
    expiry_s: int = -1


@dataclass(slots=True)
class Subscribe(TicketedCommand):
    """Add subscriptions, or replace those of the same name -> Subscribed, then their retained messages as Deliveries."""

    subscriptions: list[MqttSubscription]


@dataclass(slots=True)
class Unsubscribe(TicketedCommand):
    """Remove subscriptions by name -> Unsubscribed."""

    patterns: list[str]


@dataclass(slots=True)
class ReleasePacketIds(TicketedCommand):
    """PUBREL: forget these packet identifiers -> PacketIdsReleased, when the removal is as durable as they were."""

    packet_ids: list[int]


@dataclass(slots=True)
class AcceptDeliveries(Command):
    """PUBREC for these EXACTLY_ONCE deliveries: do not send them again -> DeliveriesAccepted. The slots stay occupied."""

    slots: list[int]


@dataclass(slots=True)
class RejectDeliveries(Command):
    """These deliveries, above AT_MOST_ONCE, exceed the Maximum Packet Size of the client. No answer.

    Messages of a shared subscription go to another member of the group; the others count as confirmed (MQTT 5, 3.1.2.11.4).
    """

    items: list[Delivery]


@dataclass(slots=True)
class Attached(TicketedEvent):
    """The session has started. `session_present`: it was resumed (Session Present of CONNACK)."""

    session_present: bool


@dataclass(slots=True)
class Subscribed(TicketedEvent):
    """Answers Subscribe: one outcome for each subscription, in order; None is success."""

    outcomes: list[Failure | None]


@dataclass(slots=True)
class Unsubscribed(TicketedEvent):
    """Answers Unsubscribe: whether each subscription existed, in order."""

    found: list[bool]


@dataclass(slots=True)
class PacketIdsReleased(TicketedEvent):
    """Answers ReleasePacketIds: whether the session had each packet identifier, in order."""

    known: list[bool]


@dataclass(slots=True)
class DeliveriesAccepted(Event):
    """Answers AcceptDeliveries when it is durable. Also sent after a reconnect, for slots that await ConfirmDeliveries."""

    slots: list[int]
    ticket: object = None


@dataclass(slots=True)
class SessionTakenOver(Event):
    """The client has attached by another connection: this connection has no session any more. Not an answer to a command."""

    ticket: object = None


@dataclass(slots=True)
class AccessRevoked(Event):
    """The principal of this connection has lost its access. The gateway closes the connection after the adapter's answer."""

    failure: Failure
    ticket: object = None


@dataclass(slots=True)
class ReadingResumed(Event):
    """The gateway reads from this connection again after a pause: the adapter restarts its keep-alive timer."""

    ticket: object = None
