"""Reload of settings by a running node: access rules, limits, the admin's password, certificates, the connection limit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Final, final

from domain.access.access import User
from domain.errors import ConfigError
from gateway.access.settings import AccessSettings, AccessTable, split
from gateway.connection.context import ConnectionContext
from gateway.guard.admission import Admission
from gateway.guard.descriptors import NO_LIMIT
from gateway.guard.settings import LimitsSettings
from gateway.guard.throttle import Throttle
from gateway.node.client_side import ClientSide
from gateway.node.roles.replication_switch import ReplicationSwitch
from gateway.node.settings import Config

ALIVE: Final = ("access.", "limits.")
"""Prefixes of settings that a running node applies, by table."""
AT_THE_START: Final = frozenset({"access.users", "access.users_kept_s"})
"""Settings of these tables that it does not."""
ALIVE_SETTINGS: Final = frozenset({"admin", "admin_file", "certificate", "key", "client_ca", "connections_max"})


@final
class SettingsReload:
    """Reads the settings again and applies those that can change without a restart.

    waiting   settings that have changed and take effect at the next start
    """

    def __init__(
        self,
        config: Config,
        reread: Callable[[], Config],
        side: ClientSide,
        connection_context: ConnectionContext,
        switch: ReplicationSwitch | None = None,
        room: int = NO_LIMIT,
    ) -> None:
        """`switch`: what becomes of changes in `[replication]`; None: they wait for a restart. `room`: connections for which
        there are file descriptors."""
        self._switch = switch
        self._room = room
        self.config = config
        self.waiting: list[str] = []
        self._reread = reread
        self._records = side.access_records
        self._access = side.access
        self._throttle = side.throttle
        self._failed_logins = side.failed_logins
        self._log = side.log
        self._entry = side.entry
        self._forwards = side.forwards
        self._users_elsewhere = side.users_elsewhere
        self._connection_context = connection_context

    def files(self) -> Sequence[str]:
        """The files that the settings are read from."""
        return [file for file in (self.config.file, self.config.admin_file) if file]

    def details(self) -> dict[str, object]:
        """The settings that wait for a restart, for the admin port."""
        return {"waiting_for_restart": self.waiting, "replication_waits": "" if self._switch is None else self._switch.waits}

    def apply(self) -> None:
        """Read the settings and apply them. Raises ConfigError, without having changed anything."""
        fresh = self._reread()
        access = AccessSettings.of(fresh.part(AccessTable, "access"))
        limits = fresh.part(LimitsSettings, "limits")
        if self._access is not None and not self._users_elsewhere and not (fresh.controlled and self._known(access)):
            raise ConfigError("access control cannot be switched off while the node runs: restart it for that")
        admin = split(fresh.admin) if fresh.admin else None
        if self._switch is not None:
            self._switch.poll(fresh)
        self._connection_context.limits.limit(min(fresh.connections_max, self._room))
        self._limit(limits)
        if self._access is not None:
            self._access.reconfigure(access)
        if admin is not None and self._access is not None and not self._users_elsewhere:
            self._admit(*admin)
        before = {name: value for name, value, _ in self.config.rows()}
        after = {name: value for name, value, _ in fresh.rows()}
        changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        self.waiting = [name for name in changed if not _is_alive(name)]
        kept = {name: getattr(fresh, name) for name in ALIVE_SETTINGS}
        # The other settings keep their values in force, so that the next reload compares with those.
        self.config = dataclasses.replace(self.config, **kept)

    def _limit(self, limits: LimitsSettings) -> None:
        """Apply the limits, also to open connections."""
        self._connection_context.output_bytes_max = limits.output_bytes_max
        if self._throttle is not None:
            self._throttle.apply(limits)
        elif limits.limits_messages and not self._forwards:
            context = self._connection_context
            self._throttle = Throttle(limits, context.handler, context.clock, self._log)
            context.handler = self._entry.handler = self._throttle
        if self._failed_logins is not None:
            self._failed_logins.apply(limits)
        connections = self._connection_context.limits
        admission_check = connections.admission_check
        if isinstance(admission_check, Admission):
            admission_check.apply(limits, connections.connections_max)

    def _known(self, access: AccessSettings) -> bool:
        """True when at least one user can authenticate."""
        return access.names_somebody or (self._records is not None and bool(self._records.users))

    def _admit(self, name: str, password: str) -> None:
        user = User(name, password, privileged=True)
        if self._records is not None and self._records.users.get(name) != user:
            self._records.put_user(user, lambda _: None)


def _is_alive(setting: str) -> bool:
    """True when a running node applies a setting."""
    return setting in ALIVE_SETTINGS or (setting.startswith(ALIVE) and setting not in AT_THE_START)
