"""Registration of a node with a store at the name servers that its configuration names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from domain.address import endpoint_text
from domain.nameserver.directory import AnnouncedTopics
from domain.nameserver.route import MASTER_ID, Registration
from domain.ports import Clock, Entropy
from gateway.cluster.registration.registration import NameserverConnection, NodeRegistration
from gateway.cluster.registration.settings import RegistrationSettings
from gateway.node.composition import Parts
from gateway.node.roles.server_access import ServerAccess
from gateway.node.settings import Config
from nameserver.own_topics import OwnTopics
from protocols.remoting.nameserver.registrar import Registrar

REPLICATION_PORT: Final = 1
"""What is added to the port of the broker for its replication address, as RocketMQ's brokers do (haListenPort)."""
CONNECT_S: Final = 5.0
"""Seconds for a connection to a name server to be made, name look-up and TLS included."""


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
