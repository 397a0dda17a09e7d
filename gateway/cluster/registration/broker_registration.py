"""Registration of a node with a store at the configured name servers: as master while it leads, as slave while it follows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, final

from domain.address import endpoint_text
from domain.errors import ConfigError
from domain.nameserver.directory import AnnouncedTopics
from domain.nameserver.route import MASTER_ID, Registration
from domain.ports import Clock, Entropy
from gateway.cluster.registration.nameserver_connections import NameserverConnection, NodeRegistration
from gateway.cluster.registration.settings import RegistrationSettings
from gateway.node.composition import Parts
from gateway.node.roles.server_access import ServerAccess
from gateway.node.settings import Config
from nameserver.own_topics import LeadersTopics, OwnTopics
from protocols.remoting.nameserver.registrar import Registrar

REPLICATION_PORT: Final = 1
"""What is added to the port of the broker for its replication address, as RocketMQ's brokers do (haListenPort)."""
CONNECT_S: Final = 5.0
"""Seconds for a connection to a name server to be made, name look-up and TLS included."""
log: Final = logging.getLogger("headgate.replica")


@final
class SlaveRegistration:
    """Registers the replica while it follows: from its first leader until its promotion, or the end of its term.

    _own      number under which it is registered; 0: it is not
    _ending   registrations that are being ended, each for a second at most
    """

    def __init__(self, config: Config, serves: str, ha_address: str, clock: Clock, entropy: Entropy) -> None:
        """`serves`: host:port of the port `readers`, "" when it is closed: the replica is not registered then."""
        self._config = config
        self._settings = config.part(RegistrationSettings, "registration")
        self._serves = serves
        self._ha_address = ha_address
        self._clock = clock
        self._entropy = entropy
        self._own = 0
        self._topics = LeadersTopics(0)
        self._registration: NodeRegistration | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def follows(self, own: int, epoch: int) -> None:
        """Register as replica `own`, a follower of the leader of `epoch`."""
        if not self._serves or not self._settings.nameservers:
            return
        if self._registration is None or own != self._own:
            self.end()
            self._own = own
            config = self._config
            broker = Registration(config.cluster, config.broker, own, self._serves, self._ha_address)
            self._topics = LeadersTopics(self._clock.wall_ms())
            try:
                self._registration = connected(self._settings, broker, self._topics, self._clock, self._entropy)
            except ConfigError as error:  # a key that cannot be read now: a node that leads fails because of it
                log.warning("this replica is not registered as a slave: %s", error)
                return
            self._registration.start()
        self._topics.epoch = epoch
        self._registration.topics_changed()

    def end(self) -> None:
        """Unregister at the name servers without a wait, since the replica does not follow any more."""
        registration, self._registration = self._registration, None
        if registration is not None:
            registration.leave()
            task = asyncio.get_running_loop().create_task(registration.close())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Unregister, and wait for the name servers for one second at most."""
        self.end()
        if self._ending:
            await asyncio.wait(self._ending)

    def counts(self) -> tuple[int, int]:
        """(name servers, those that have this replica as a slave)."""
        return (0, 0) if self._registration is None else self._registration.counts()


def registration_of(
    config: Config, ports: Mapping[str, int], host: str, parts: Parts, clock: Clock, entropy: Entropy, epoch: int
) -> NodeRegistration | None:
    """The registration, not started yet; None when no name server is configured. Raises ConfigError.

    `epoch`: in which the node leads its store group; 0: it is no replica.
    """
    settings = config.part(RegistrationSettings, "registration")
    if not settings.nameservers:
        return None
    port = ports["remoting"]
    where, replication = endpoint_text(host, port), endpoint_text(host, port + REPLICATION_PORT)
    broker = Registration(config.cluster, config.broker, MASTER_ID, where, replication)
    policy = parts.policy
    topics = OwnTopics(config.broker, parts.store.metadata, lambda: policy.permission, clock.wall_ms(), epoch)
    registration = connected(settings, broker, topics, clock, entropy)
    parts.store.metadata.follow_topics(lambda _topic: registration.topics_changed())
    return registration


def connected(
    settings: RegistrationSettings, broker: Registration, topics: AnnouncedTopics, clock: Clock, entropy: Entropy
) -> NodeRegistration:
    """The registration of a broker with its topics at all name servers, not started yet. Raises ConfigError."""
    access = ServerAccess(settings.servers)
    dialer = access.dialer(CONNECT_S)
    return NodeRegistration(
        [
            NameserverConnection(host, port, Registrar(broker, topics), access.sign, dialer, clock, entropy)
            for host, port in access.servers.endpoints
        ]
    )
