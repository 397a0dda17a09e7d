"""Failed logins: who guesses is slowed by its host and by (host, user), never by the user alone, over all protocols together.

Nobody can lock out another one: what a host does counts for clients of that host alone. See decision 131.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar, final

from domain.address import network_of_host
from domain.limits import SECOND_NS
from gateway.guard.settings import LimitsSettings

HOST_WAIT_NS: Final = SECOND_NS
"""Wait of a host after each failure that is too many: it may have many users."""
USER_WAIT_NS_MAX: Final = 60 * SECOND_NS
"""Longest wait of (host, user), which doubles from one second on."""
FORGOTTEN_NS: Final = 600 * SECOND_NS
"""Failures are forgotten after so long without another one."""
USER_CHARS_MAX: Final = 128
"""A longer name counts by its beginning."""

Key = TypeVar("Key")
log = logging.getLogger("headgate.guard")


@final
class _Failures:
    """Failures of one host, or of one user from one host. `until`: monotonic ns before which no login is looked at."""

    __slots__ = ("count", "last", "until")

    def __init__(self) -> None:
        self.count = 0
        self.last = 0
        self.until = 0


@final
class FailedLogins:
    """`gateway.access.authority.Logins`. Each of both tables has `keys_max` entries at most, and drops the oldest failure.

    count     failed logins since the start, those that were not looked at apart
    slowed    logins that were not looked at, since the start
    """

    def __init__(self, limits: LimitsSettings, monotonic_ns: Callable[[], int]) -> None:
        self.count = 0
        self.slowed = 0
        self._monotonic_ns = monotonic_ns
        self._hosts: dict[str, _Failures] = {}
        self._users: dict[tuple[str, str], _Failures] = {}
        self.apply(limits)

    def apply(self, limits: LimitsSettings) -> None:
        """Apply new limits. Failures counted before are kept, unless the new limits switch the wait off."""
        self._free = limits.failed_logins
        self._keys_max = limits.keys_max
        self._lockout = limits.lockout_failures
        self._lockout_ns = limits.lockout_s * SECOND_NS
        if not self._free:
            self._hosts.clear()
        if not self._free and not self._lockout:
            self._users.clear()

    @property
    def is_idle(self) -> bool:
        """True while no failure is remembered: there is nothing to ask, and nothing to count for a login that succeeds."""
        return not self._users

    def wait_s(self, host: str, user: str, is_proven: bool) -> int:
        """Seconds for which no login as `user` from `host` is looked at; 0: it is.

        `is_proven`: one from there has succeeded, so what other users of the host do does not count.
        """
        host, now = network_of_host(host), self._monotonic_ns()
        found = self._users.get((host, user[:USER_CHARS_MAX]))
        until = 0 if found is None else found.until
        if not is_proven:
            of_host = self._hosts.get(host)
            until = max(until, 0 if of_host is None else of_host.until)
        if until <= now:
            return 0
        self.slowed += 1
        return -((now - until) // SECOND_NS)

    def failed(self, host: str, user: str) -> None:
        """Count a login that was looked at and failed."""
        self.count += 1
        if not self._free and not self._lockout:
            return
        host, user, now = network_of_host(host), user[:USER_CHARS_MAX], self._monotonic_ns()
        mine = _again(self._users, (host, user), now, self._keys_max)
        if self._lockout and mine.count >= self._lockout:
            mine.until = now + self._lockout_ns
        elif self._free and mine.count > self._free:
            mine.until = now + min(SECOND_NS << min(mine.count - self._free - 1, 6), USER_WAIT_NS_MAX)
        if mine.count == (self._lockout or self._free + 1):
            self._tell(f"as user {user!r} from {host}", mine.count)
        if self._free:
            whole = _again(self._hosts, host, now, self._keys_max)
            if whole.count > self._free:
                whole.until = now + HOST_WAIT_NS
            if whole.count == self._free + 1:
                self._tell(f"from {host}", whole.count)

    def succeeded(self, host: str, user: str) -> None:
        """A login has succeeded: failures of the same user from the same host were its own mistakes."""
        host = network_of_host(host)
        mine = self._users.pop((host, user[:USER_CHARS_MAX]), None)
        whole = self._hosts.get(host)
        if mine is None or whole is None or self._monotonic_ns() - mine.last > FORGOTTEN_NS:
            return
        whole.count -= mine.count
        if whole.count <= 0:
            del self._hosts[host]

    def figures(self) -> dict[str, float]:
        """Counters of failed logins, by their names on the metrics page."""
        return {
            "failed_logins_total": self.count, "slowed_logins_total": self.slowed, "failed_login_hosts": len(self._hosts),
        }  # fmt: skip

    def _tell(self, what: str, count: int) -> None:
        cause, remedy = f"{count} have failed", "look who it is: a device with an old password, or somebody who guesses"
        facts = {"event": "failed-logins", "cause": cause, "remedy": remedy}
        log.warning("logins %s wait from now on: %s: %s", what, cause, remedy, extra=facts)


def _again(table: dict[Key, _Failures], key: Key, now: int, keys_max: int) -> _Failures:
    """Count one more failure of `key`, and move its entry to the end of `table`. A full table drops its first entry."""
    found = table.pop(key, None)
    if found is None or now - found.last > FORGOTTEN_NS:
        found = _Failures()
        if len(table) >= keys_max:
            del table[next(iter(table))]
    table[key] = found
    found.count += 1
    found.last = now
    return found
