"""Routes of this node's own broker, made from its metadata when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import final

from domain import address
from domain.admin.replica import ReplicaView
from domain.nameserver.route import MASTER_ID, BrokerAddresses, TopicQueues
from domain.store.store_ports import Metadata
from domain.topic.topic import PERM_READ_WRITE, PERM_WRITE, Topic
from gateway.usecase.topics_and_groups import every
from gateway.usecase.topics_and_groups.policy import NodePolicy
from gateway.usecase.topics_and_groups.topics import queues_of_derived


@final
class OwnRoutes:
    """The broker of a node with a store.

    addresses   the broker; its address is empty: the protocol that the client speaks fills in its own
    """

    def __init__(
        self, cluster: str, broker: str, metadata: Metadata, policy: NodePolicy, replica: ReplicaView | None = None
    ) -> None:
        """`replica`: knows the replicas that serve readers; None: the store has none."""
        self.addresses = BrokerAddresses(cluster, broker, {MASTER_ID: ""})
        self._replica = replica
        self._broker = broker
        self._metadata = metadata
        self._policy = policy
        self._permission = policy.permission
        self._writable = True

    def with_readers(self, forwarded: bool) -> BrokerAddresses:
        """The broker, with the replicas that serve readers as its slaves; without them for a client that is at a gateway, which
        may not reach them."""
        readers = {} if self._replica is None or forwarded else self._replica.readers()
        return replace(self.addresses, addresses={MASTER_ID: "", **readers}) if readers else self.addresses

    def queues(self, name: str) -> TopicQueues | None:
        """The queues of a topic; None when the node does not have it."""
        topic = self._metadata.topic(name)
        if topic is None and address.is_topic(name) and name.startswith(address.RETRY_PREFIX):
            # The group's first heartbeat creates its retry topic, after this question. Without a route the client would ask
            # again only after 30 s.
            count = queues_of_derived(self._metadata, name)
            topic = Topic(name, count, count)
        if topic is None:
            return None
        return TopicQueues(self._broker, topic.read_queues, topic.write_queues, self._perm(topic), topic.sys_flag)

    def names(self) -> Iterator[str]:
        """The names of all topics; it may change during the walk."""
        return (topic.name for topic in every.topics(self._metadata))

    def set_writable(self, writable: bool) -> int:
        """Give or take the write permission in routes -> how many topics there are.

        Producers go elsewhere; messages that are still sent here are stored.
        """
        self._permission = self._policy.permission
        self._writable = writable
        return self._metadata.topic_count()

    def _perm(self, topic: Topic) -> int:
        """The permission in a route: the topic's, within the broker's, without write when that was wiped by SetWritable."""
        permission = self._policy.permission
        if permission != self._permission:
            # RocketMQ's broker registers again when its permission changes, which undoes a wiped write permission.
            self._permission = permission
            self._writable = True
        perm = topic.perm if permission == PERM_READ_WRITE else topic.perm & permission
        return perm if self._writable else perm & ~PERM_WRITE
