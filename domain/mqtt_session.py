"""Sessions: a client that comes and goes, what it has subscribed to, and what is on its way to it.

A session is a reader of the log with a memory: filters, positions, and a window of messages that the client has not
confirmed yet, each in a numbered slot. One that outlives its connection is kept in the store; messages that come while it
is away are not copied anywhere, they are read from the log when it returns. Made for MQTT, but nothing here is on its wire.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, final

from domain.command import Command
from domain.errors import Failure
from domain.event import Event
from domain.message import Message
from domain.record import Record

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
class MqttSubscription:
    """One filter of a session.

    group         "": each session with such a filter gets every message. Else the session is a member of this consumer group,
                  whose members share its messages out: leases of the group's ledger, settled by Confirm
    level         the highest promise that deliveries are made with: AT_MOST_ONCE, AT_LEAST_ONCE or EXACTLY_ONCE
    no_local      not what this client itself has sent; as_published: deliveries tell whether the sender had it retained
    retain_handling  when the latest values are delivered on subscribing: RETAINED_ALWAYS, _IF_NEW, _NEVER
    identifier    a number of the client's own that comes with each delivery, 0: none
    since         physical offset: older records are not for this filter (the gateway sets it)
    refused       why access to it is not granted; None: nothing says so
    """

    __slots__ = ("as_published", "group", "identifier", "level", "no_local", "pattern", "refused", "retain_handling", "since")

    def __init__(
        self,
        pattern: str,
        level: int,
        no_local: bool = False,
        as_published: bool = False,
        retain_handling: int = RETAINED_ALWAYS,
        identifier: int = 0,
        since: int = 0,
        group: str = "",
    ) -> None:
        self.pattern = pattern
        self.group = group
        self.level = level
        self.no_local = no_local
        self.as_published = as_published
        self.retain_handling = retain_handling
        self.identifier = identifier
        self.since = since
        self.refused: Failure | None = None

    @property
    def name(self) -> str:
        """What tells the filters of one session apart: the pattern, for a member of a group with the group before it."""
        return shared_name(self.group, self.pattern) if self.group else self.pattern


def shared_name(group: str, pattern: str) -> str:
    """The name of a filter that the members of `group` share."""
    return f"{SHARED}{group}/{pattern}"


@dataclass(slots=True)
class Will:
    """What is published on the client's behalf when it is lost. `expiry_s` is the message's own life, -1: no end."""

    message: Message
    delay_s: int = 0
    expiry_s: int = -1


@dataclass(slots=True)
class Attach(Command):
    """The client `client_id` is here -> Attached; Refused when the store cannot take it.

    A connection of the same client that is still there hears SessionTakenOver and has no session from then on.

    clean_start  forget what is known of the client
    expiry_s     how long the session outlives its connection; 0: not at all, EXPIRY_NEVER
    window       slots: how many deliveries above AT_MOST_ONCE may be unconfirmed, 1 to SLOT_MAX
    packet_bytes_max  the largest delivery, as the client counts it, that the client takes; 0: any
    address      "host:port" of the client, "" when it is not known; tools show it
    """

    ticket: object
    client_id: str
    clean_start: bool
    expiry_s: int
    window: int
    will: Will | None = None
    packet_bytes_max: int = 0
    address: str = ""


@dataclass(slots=True)
class Detach(Command):
    """The client says goodbye. No answer; the connection ends after it.

    publish_will: publish the will all the same. expiry_s: replaces that of Attach, -1: does not.
    """

    publish_will: bool = False
    expiry_s: int = -1


@dataclass(slots=True)
class Subscribe(Command):
    """Add filters, or replace those with an equal name -> Subscribed, then their latest values as Deliveries."""

    ticket: object
    subscriptions: list[MqttSubscription]


@dataclass(slots=True)
class Unsubscribe(Command):
    """Take filters out, by their names -> Unsubscribed."""

    ticket: object
    patterns: list[str]


@dataclass(slots=True)
class SendOnce(Command):
    """Append `messages` unless they are known -> Done, or Refused and then none of the new ones was stored.

    `packet_ids[i]` is the client's number for `messages[i]`; a number that is marked already stands for a repetition. Marks
    are kept with the session, in the same commit as the messages, until Release.
    """

    ticket: object
    messages: list[Message]
    packet_ids: list[int]


@dataclass(slots=True)
class ReleasePacketIds(Command):
    """The client will not repeat these packet_ids -> PacketIdsReleased, once that is as durable as the packet_ids were."""

    ticket: object
    packet_ids: list[int]


@dataclass(slots=True)
class ConfirmDeliveries(Command):
    """Deliveries in these slots have done their duty: the slots are free. Unknown slots are passed over. No answer."""

    slots: list[int]


@dataclass(slots=True)
class AcceptDeliveries(Command):
    """The client owns these EXACTLY_ONCE deliveries: they are not sent again -> DeliveriesAccepted. The slots stay occupied."""

    slots: list[int]


@dataclass(slots=True)
class RejectDeliveries(Command):
    """These deliveries, above AT_MOST_ONCE, cannot be given to this client: they are too large for it. No answer.

    One that came to the session as a member of a group goes to another member; the others count as confirmed.
    """

    items: list[Delivery]


@final
class RoutedRecord:
    """One record on its way to many sessions.

    level    the promise that its sender made (AT_LEAST_ONCE for what did not come by MQTT)
    stored   the record's properties; forms: what adapters have encoded of it so far, by a key of their own. All receivers
             of one record share one parcel
    """

    __slots__ = ("forms", "level", "path", "record", "stored")

    def __init__(self, record: Record, stored: bytes, path: str, level: int) -> None:
        self.record = record
        self.stored = stored
        self.path = path
        self.level = level
        self.forms: dict[tuple[int, ...], tuple[bytes, bytes]] = {}


@final
class Delivery:
    """One parcel for one session. `slot` is 0 at AT_MOST_ONCE. `duplicate`: it may have been delivered before."""

    __slots__ = ("duplicate", "identifiers", "level", "retained", "routed", "slot")

    def __init__(
        self, routed: RoutedRecord, level: int, slot: int, retained: bool, duplicate: bool, identifiers: tuple[int, ...]
    ) -> None:
        self.routed = routed
        self.level = level
        self.slot = slot
        self.retained = retained
        self.duplicate = duplicate
        self.identifiers = identifiers


@dataclass(slots=True)
class Attached(Event):
    """The session is there; `session_present`: it was known before."""

    ticket: object
    session_present: bool


@dataclass(slots=True)
class Subscribed(Event):
    """One outcome a filter, in order; None is success."""

    ticket: object
    outcomes: list[Failure | None]


@dataclass(slots=True)
class Unsubscribed(Event):
    """Whether each filter was there, in order."""

    ticket: object
    found: list[bool]


@dataclass(slots=True)
class PacketIdsReleased(Event):
    """Whether each mark was known, in order."""

    ticket: object
    known: list[bool]


@dataclass(slots=True)
class Deliveries(Event):
    """Messages for the session, in the order in which they are to be sent. Unasked."""

    items: list[Delivery] = field(default_factory=list)
    ticket: object = None


@dataclass(slots=True)
class DeliveriesAccepted(Event):
    """Take has been made durable for these slots; also unasked, after a return, for those that await their Confirm."""

    slots: list[int]
    ticket: object = None


@dataclass(slots=True)
class SessionTakenOver(Event):
    """Unasked: the client has attached by another connection; this one has no session any more."""

    ticket: object = None


@dataclass(slots=True)
class AccessRevoked(Event):
    """Unasked: whoever this connection belongs to may not have it any more. The gateway closes it behind what is said now."""

    failure: Failure
    ticket: object = None


@dataclass(slots=True)
class ReadingResumed(Event):
    """Unasked: the gateway has not listened until now, so the peer's silence is not the peer's."""

    ticket: object = None
