"""A running node becomes the first replica of a store group, and goes on alone again, when the table `[replication]` changes.

Its process and its listening sockets stay. The store is closed and opened again within the process: connections end in the
words of their protocols, and new ones wait in the sockets until the store is open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final, final

from domain.controller.group import StoreGroup
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer
from gateway.cluster.replica.controllers import GroupControllers
from gateway.cluster.replica.peer_network import PeerNetwork
from gateway.cluster.replica.settings import ReplicationSettings
from gateway.node.roles.role import Role
from gateway.node.roles.role_names import STORE
from gateway.node.roles.server_access import ServerAccess
from gateway.node.settings import Config
from gateway.node.storage import is_rocketmq
from gateway.runtime.entropy import SystemEntropy

AGAIN_MS: Final = 1_000
"""Pause before the controllers are asked again."""
log: Final = logging.getLogger("headgate.replica")


@final
class ReplicationSwitch:
    """Checks reloaded settings, and restarts the node when they make it a replica, or none.

    waits   reason why it has not become a replica, or still is one; "": nothing is pending
    """

    def __init__(self, config: Config, clock: Clock, replica: Role | None, restart: Callable[[Config], None]) -> None:
        """`config`: of the process, as it runs; `restart` gets the next one. `replica`: None when the store is none."""
        self.waits = ""
        self._config = config
        self._clock = clock
        self._replica = replica
        self._restart = restart
        self._asking: GroupControllers | None = None
        self._timer: Timer | None = None

    def poll(self, fresh: Config) -> None:
        """Begin the change that `fresh` asks for, if it asks for one, as soon as it can be made. Raises ConfigError."""
        self.stop()
        wanted = fresh.part(ReplicationSettings, "replication")
        is_replica = self._replica is not None
        if bool(wanted.controllers) == is_replica or STORE not in self._config.role_set or is_rocketmq(self._config):
            return
        following = replace(
            self._config, durability=fresh.durability,
            tables={**self._config.tables, "replication": fresh.table("replication")},
            sources={**self._config.sources, **{k: v for k, v in fresh.sources.items() if k.startswith("replication.")}},
        )  # fmt: skip
        if self._replica is None:
            self._join(following, wanted)
        else:
            self._leave(following, self._replica)

    def stop(self) -> None:
        """Ask the controllers no more."""
        asking, self._asking = self._asking, None
        self.waits = ""
        if self._timer is not None:
            self._timer.cancel()
        if asking is not None:
            asking.close()

    def _leave(self, following: Config, role: Role) -> None:
        """Go on alone, once this replica leads and is the only one."""
        others = role.other_replicas()
        if others is not None and not others:
            self.stop()
            log.warning("store group %s: the settings name no controllers: this node is no replica any more", following.broker)
            self._restart(following)
            return
        why = (
            f"replicas {', '.join(map(str, others))} are there besides this one: stop and remove them"
            if others
            else "it does not lead"
        )
        self._wait(f"it does not go on alone yet: {why}", following)
        self._timer = self._clock.call_at(
            self._clock.monotonic_ns() + AGAIN_MS * MILLISECOND_NS, lambda: self._leave(following, role)
        )

    def _wait(self, why: str, following: Config) -> None:
        if why != self.waits:
            log.warning("store group %s: the settings of replication have changed, and %s", following.broker, why)
            self.waits = why

    def _join(self, following: Config, wanted: ReplicationSettings) -> None:
        """Become the first replica, once the leading controller has reported that there is no other one."""
        access = ServerAccess(wanted.servers)
        asking = self._asking = GroupControllers(
            following.cluster, following.broker, wanted.servers.endpoints,
            PeerNetwork(access.dialer(), access.kept_sign(self._clock), self._clock, SystemEntropy()),
        )  # fmt: skip

        def ask() -> None:
            if self._asking is asking:
                asking.ask(answered)

        def answered(group: StoreGroup | None, known: bool) -> None:
            if self._asking is not asking:
                return
            if known and (group is None or not group.replicas):
                self.stop()
                log.warning("store group %s: this node becomes its first replica", following.broker)
                self._restart(following)
                return
            why = "no controller that leads answers"
            if group is not None:
                why = f"the store group has replicas: this node would have to follow them. Restart it if it may, or {_FREE}"
            self._wait(f"this node is no replica yet: {why}", following)
            self._timer = self._clock.call_at(self._clock.monotonic_ns() + AGAIN_MS * MILLISECOND_NS, ask)

        ask()


_FREE: Final = "headgate cluster remove GROUP --all if they are gone for good"
