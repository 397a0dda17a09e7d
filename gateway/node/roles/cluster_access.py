"""Access by the users of the cluster behind a gateway: `[access] users = "cluster"`."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, final

from domain.errors import ConfigError
from domain.limits import SECOND_NS
from domain.ports import Clock
from gateway.access.authority import Access
from gateway.access.records import AccessRecords
from gateway.access.settings import CLUSTER_USERS, AccessTable
from gateway.node.client_side import access_of
from gateway.node.settings import Config
from gateway.node.storage import ROCKETMQ, is_rocketmq
from gateway.observe.health import Health

if TYPE_CHECKING:
    from gateway.brokers.broker_links import Brokers
    from gateway.brokers.cluster_map import ClusterMap

CHECK_S: Final = 0.02
"""Time between two checks whether a broker has reported the users."""

log = logging.getLogger("headgate.access")


def has_cluster_users(config: Config) -> bool:
    """Whether the users are those of the cluster. Raises ConfigError without a cluster, and where there is an admin besides."""
    if config.part(AccessTable, "access").users != CLUSTER_USERS:
        return False
    if not is_rocketmq(config):
        raise ConfigError(f'access.users is "{CLUSTER_USERS}", and store.kind is not "{ROCKETMQ}": there is no cluster')
    if config.admin:
        raise ConfigError(f'access.users is "{CLUSTER_USERS}": Super users of the cluster administer this node, give no admin')
    return True


@final
class ClusterAccess:
    """Users and policies of the cluster, and the authority over them."""

    def __init__(self, config: Config, clock: Clock, servers: Brokers, links: Brokers, cluster: ClusterMap) -> None:
        """See `ClusterUsers`."""
        from gateway.apache.users.cluster_users import ClusterUsers  # a node that is no gateway before a cluster needs none

        kept_s = config.part(AccessTable, "access").users_kept_s
        self._config = config
        self._clock = clock
        self._cluster = cluster
        self._users = ClusterUsers(servers, links, cluster, clock, kept_s * SECOND_NS)
        self._records = AccessRecords(None, access_of(config).grants, self._users, "at the cluster: ask its brokers")

    async def open(self, health: Health) -> None:
        """Wait without limit until a broker has reported users and policies. `health` reports the reason of the wait."""
        self._users.start()
        while not self._users.is_known:
            if self._users.fault:
                key = "the access key of this gateway must be of a user who may read them (store.access_key_file)"
                health.waits = f"waits for the users of the cluster: {self._users.fault}; {key}"
            await asyncio.sleep(CHECK_S)
        health.waits = ""

    def access(self) -> tuple[AccessRecords, Access | None]:
        """Users and policies, and the authority over them. `Cluster:` in policies is the name of the cluster."""
        names = self._cluster.clusters
        name = next(iter(names)) if len(names) == 1 else self._config.cluster
        return self._records, Access(self._records, access_of(self._config), self._clock.wall_ms, name)

    @property
    def waits(self) -> str:
        """Why nobody is admitted, "": users are known."""
        return "" if self._users.is_known else f"the users of the cluster are not known any more: {self._users.fault}"

    def line(self) -> tuple[str, str]:
        """For the table that is printed at the start."""
        return "users", f"those of the cluster: {self._users.figures()['cluster_users']:g}"

    def figures(self) -> dict[str, float]:
        """For the metrics."""
        return self._users.figures()

    def stop(self) -> None:
        """Ask no more."""
        self._users.stop()
