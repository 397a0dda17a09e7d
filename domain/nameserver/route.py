"""Routes of topics: brokers and queues, and the commands and events of the name server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from domain.command import TicketedCommand
from domain.event import TicketedEvent

MASTER_ID: Final = 0
ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
OWN_NAMESPACE: Final = "NAMESRV_CONFIG"
"""Namespace of the name server's own settings, which can be changed while it runs."""
ORDER_KEY: Final = "orderMessageEnable"
"""In OWN_NAMESPACE: "false" leaves the order configuration of topics out of their routes."""


@dataclass(frozen=True, slots=True)
class DataVersion:
    """Version of a broker's topic configuration (RocketMQ's DataVersion). Versions are compared for equality.

    state         counts configurations, higher is newer
    timestamp_ms  epoch milliseconds of the last change
    counter       counts changes
    """

    state: int = 0
    timestamp_ms: int = 0
    counter: int = 0


@dataclass(frozen=True, slots=True)
class TopicQueues:
    """The queues of one topic on one broker."""

    broker: str
    read_queues: int
    write_queues: int
    perm: int
    sys_flag: int = 0


@dataclass(frozen=True, slots=True)
class BrokerAddresses:
    """The addresses of one broker.

    addresses      broker id -> `host:port`, "": this node; id 0 is the master
    zone           where it is, "" when unknown
    acting_master  True: a slave may act as master
    """

    cluster: str
    broker: str
    addresses: Mapping[int, str]
    zone: str = ""
    acting_master: bool = False


@dataclass(frozen=True, slots=True)
class Registration:
    """The registration of a broker.

    broker_id      0: the master
    address        `host:port` for clients
    ha_address     `host:port` for replication, "": none
    lease_ms       how long the registration is valid without a renewal
    zone           where it is, "" when unknown
    acting_master  True: a slave may act as master
    version        of its topic configuration
    topics         topic -> queues; None: the request had no topic configuration
    """

    cluster: str
    broker: str
    broker_id: int
    address: str
    ha_address: str = ""
    lease_ms: int = 120_000
    zone: str = ""
    acting_master: bool = False
    version: DataVersion = field(default_factory=DataVersion)
    topics: Mapping[str, TopicQueues] | None = None


@dataclass(frozen=True, slots=True)
class TopicPage:
    """A page of a broker's topics, or of what has changed in them.

    number   from 0; a page follows the one before it
    base     counter of the version to which the changes are to be applied; None: the pages are the whole table
    last     True: with this page the table has the version of the registration
    topics   topic -> queues
    gone     topics that the broker no longer has
    """

    number: int
    base: int | None
    last: bool
    topics: Mapping[str, TopicQueues]
    gone: Sequence[str] = ()


class RegisterOutcome(Enum):
    """The outcome of a registration at a name server.

    TAKEN     it is applied
    MISFIT    it does not build on what the name server has: the broker sends the whole table
    FULL      there are too many brokers or topics
    """

    TAKEN = "taken"
    MISFIT = "misfit"
    FULL = "full"


@dataclass(slots=True)
class QueryRoute(TicketedCommand):
    """Brokers and queues of a topic -> RouteFound (RocketMQ code 105). Errors: TOPIC_NOT_FOUND (no live broker has it)."""

    topic: str


@dataclass(slots=True)
class RouteFound(TicketedEvent):
    """The route of a topic, with at least one broker.

    order   order configuration of the topic, "": none
    """

    queues: list[TopicQueues]
    brokers: list[BrokerAddresses]
    order: str = ""


@dataclass(slots=True)
class QueryCluster(TicketedCommand):
    """All live brokers -> ClusterFound (RocketMQ code 106)."""


@dataclass(slots=True)
class ClusterFound(TicketedEvent):
    """All live brokers, by name."""

    brokers: list[BrokerAddresses]


@dataclass(slots=True)
class ListRoutes(TicketedCommand):
    """Topics that some broker has -> RouteNames.

    cluster   only of brokers of this cluster; "": of all brokers
    """

    cluster: str = ""


@dataclass(slots=True)
class RouteNames(TicketedEvent):
    """Topic names, sorted."""

    topics: list[str]


@dataclass(slots=True)
class DropRoute(TicketedCommand):
    """Remove the route of a topic -> Done. The brokers keep the topic.

    cluster   only for brokers of this cluster; "": for all brokers
    """

    topic: str
    cluster: str = ""


@dataclass(slots=True)
class RegisterBroker(TicketedCommand):
    """Register a broker outside this node, or renew its registration -> BrokerRegistered (RocketMQ code 103).

    Errors: NOT_ALLOWED, QUOTA (too many brokers or topics), CLIENT_UNKNOWN (one topic of a broker that is not registered).
    """

    registration: Registration


@dataclass(slots=True)
class BrokerRegistered(TicketedEvent):
    """The broker is registered.

    master      address of its master, "" for a master
    ha_address  replication address of its master
    order       topic -> order configuration
    """

    master: str
    ha_address: str
    order: Mapping[str, str]


@dataclass(slots=True)
class RegisterPage(TicketedCommand):
    """Register a broker, or renew its registration, with a page of its topics -> PageRegistered (Headgate's code 30012).

    registration   without topics; its version is that of the table with the last page

    Errors: NOT_ALLOWED, QUOTA (too many brokers or topics).
    """

    registration: Registration
    page: TopicPage


@dataclass(slots=True)
class PageRegistered(TicketedEvent):
    """The broker is registered.

    taken   False: the page was not applied, the broker has to send the whole table
    """

    taken: bool


@dataclass(slots=True)
class UnregisterBroker(TicketedCommand):
    """Remove a broker -> Done (RocketMQ code 104)."""

    cluster: str
    broker: str
    broker_id: int
    address: str


@dataclass(slots=True)
class RenewBroker(TicketedCommand):
    """Renew the lease of a broker -> BrokerRenewed.

    version   of its topic configuration; None: not sent
    """

    cluster: str
    broker: str
    address: str
    version: DataVersion | None = None


@dataclass(slots=True)
class BrokerRenewed(TicketedEvent):
    """The lease is renewed.

    changed   True: the broker should register again, the known version is another
    version   the known version, None: the broker is not registered
    """

    changed: bool
    version: DataVersion | None


@dataclass(slots=True)
class SetWritable(TicketedCommand):
    """Give or take the write permission of a broker's routes -> WritableChanged. Until the broker registers or starts again."""

    broker: str
    writable: bool


@dataclass(slots=True)
class WritableChanged(TicketedEvent):
    """The number of topics whose routes have changed."""

    count: int


@dataclass(slots=True)
class PutSetting(TicketedCommand):
    """Set a key of the name server, or remove it with None -> Done (RocketMQ codes 100 and 102). Errors: ARGUMENT_ILLEGAL."""

    namespace: str
    key: str
    value: str | None = None


@dataclass(slots=True)
class QuerySettings(TicketedCommand):
    """Keys of one namespace of the name server -> SettingsFound.

    key   one key; "": all keys

    An absent namespace or key gives an empty table.
    """

    namespace: str
    key: str = ""


@dataclass(slots=True)
class SettingsFound(TicketedEvent):
    """Key -> value."""

    values: Mapping[str, str]
