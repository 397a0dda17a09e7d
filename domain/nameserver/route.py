"""Where topics are: brokers, their queues, and the name server's commands and events about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from domain.command import Command
from domain.event import Event

MASTER_ID: Final = 0
ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
OWN_NAMESPACE: Final = "NAMESRV_CONFIG"
"""Keys that are the name server's own configuration, changed while it runs."""
ORDER_KEY: Final = "orderMessageEnable"
"""In OWN_NAMESPACE: "false" keeps the order of topics' queues out of their routes."""


@dataclass(frozen=True, slots=True)
class DataVersion:
    """How new a broker's topic configuration is (RocketMQ's DataVersion). Compared for equality; `state` also by size."""

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
    """One broker: broker id -> `host:port`, "" for the node that answers; id 0 is its master."""

    cluster: str
    broker: str
    addresses: Mapping[int, str]
    zone: str = ""
    acting_master: bool = False


@dataclass(frozen=True, slots=True)
class Registration:
    """What a broker says when it registers. `topics` None: nothing that counts as configuration was sent.

    lease_ms    how long the registration holds without another word
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


@dataclass(slots=True)
class QueryRoute(Command):
    """Brokers and queues of a topic -> RouteFound; Refused TOPIC_NOT_FOUND when no living broker has it."""

    ticket: object
    topic: str


@dataclass(slots=True)
class RouteFound(Event):
    """A route: never without a broker. `order`: the topic's order configuration, "" when it has none."""

    ticket: object
    queues: list[TopicQueues]
    brokers: list[BrokerAddresses]
    order: str = ""


@dataclass(slots=True)
class QueryCluster(Command):
    """All living brokers -> ClusterFound."""

    ticket: object


@dataclass(slots=True)
class ClusterFound(Event):
    """All living brokers, by name."""

    ticket: object
    brokers: list[BrokerAddresses]


@dataclass(slots=True)
class ListRoutes(Command):
    """Names of all topics that some broker has; of one cluster unless it is "" -> RouteNames."""

    ticket: object
    cluster: str = ""


@dataclass(slots=True)
class RouteNames(Event):
    """Topic names, sorted."""

    ticket: object
    topics: list[str]


@dataclass(slots=True)
class DropRoute(Command):
    """Forget which brokers of a cluster ("" all) have a topic; the topic itself stays where it is -> Done."""

    ticket: object
    topic: str
    cluster: str = ""


@dataclass(slots=True)
class RegisterBroker(Command):
    """A broker outside this node registers or renews -> BrokerRegistered; Refused NOT_ALLOWED."""

    ticket: object
    registration: Registration


@dataclass(slots=True)
class BrokerRegistered(Event):
    """The master's addresses, for one that is not the master; `order`: the order configuration of all topics."""

    ticket: object
    master: str
    ha_address: str
    order: Mapping[str, str]


@dataclass(slots=True)
class UnregisterBroker(Command):
    """A broker takes its leave -> Done."""

    ticket: object
    cluster: str
    broker: str
    broker_id: int
    address: str


@dataclass(slots=True)
class RenewBroker(Command):
    """A broker lives; `version`: its configuration, None when it did not say -> BrokerRenewed."""

    ticket: object
    cluster: str
    broker: str
    address: str
    version: DataVersion | None = None


@dataclass(slots=True)
class BrokerRenewed(Event):
    """`changed`: it should register again. `version`: what is known of it, None when nothing is."""

    ticket: object
    changed: bool
    version: DataVersion | None


@dataclass(slots=True)
class SetWritable(Command):
    """Give or take the write permission of a broker's routes, until the broker registers or starts anew -> WritableChanged."""

    ticket: object
    broker: str
    writable: bool


@dataclass(slots=True)
class WritableChanged(Event):
    """How many topics it concerned."""

    ticket: object
    count: int


@dataclass(slots=True)
class PutSetting(Command):
    """Set a name server key, or remove it with None -> Done."""

    ticket: object
    namespace: str
    key: str
    value: str | None


@dataclass(slots=True)
class QuerySettings(Command):
    """A namespace of name server keys, or one `key` of it -> SettingsFound; an absent namespace or key is an empty table."""

    ticket: object
    namespace: str
    key: str = ""


@dataclass(slots=True)
class SettingsFound(Event):
    """Key -> value."""

    ticket: object
    values: Mapping[str, str]
