"""Reloading files while the node runs: when they change, on SIGHUP, and on a request at the admin port.

If a file cannot be used, the settings stay as they were, and the log, a metric and the admin port report the error.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

from domain.errors import ConfigError

CHECK_S: Final = 1.0
"""Seconds between two checks of the files, one `stat` each."""

Stamp = tuple[int, int, int]
log = logging.getLogger("headgate.reload")


@final
class ReloadSource:
    """Settings or certificates that are read from files.

    name       name in logs and at the admin port
    files      returns the paths of the files
    apply      reads the files and applies them; raises ConfigError and changes nothing when that fails
    details    returns further values for the admin port
    loaded     time of the last successful load, ISO 8601
    loads      number of reloads that succeeded
    failures   number of reloads that failed
    fault      error of the last reload; "": it succeeded
    stamps     state of each file at the last reload
    """

    def __init__(
        self,
        name: str,
        files: Callable[[], Sequence[str]],
        apply: Callable[[], None],
        details: Callable[[], Mapping[str, object]],
    ) -> None:
        self.name = name
        self.files = files
        self.apply = apply
        self.details = details
        self.loaded = _now()
        self.loads = 0
        self.failures = 0
        self.fault = ""
        self.stamps = self.read_stamps()

    def read_stamps(self) -> dict[str, Stamp | None]:
        """Modification time, inode and size of each file; None for a missing one."""
        return {file: _stamp(file) for file in self.files()}

    def reload(self) -> None:
        """Read the files again."""
        self.stamps = self.read_stamps()
        try:
            self.apply()
        except ConfigError as error:
            self.failures += 1
            self.fault = str(error)
            log.error("%s: what was in force stays in force: %s", self.name, error)
            return
        self.loads += 1
        self.loaded = _now()
        self.fault = ""
        # The new settings may name other files.
        self.stamps = self.read_stamps()
        log.info("%s: read again and in force", self.name)

    def state(self) -> dict[str, object]:
        """The state for the admin port, as JSON values."""
        return {
            "name": self.name,
            "loaded": self.loaded,
            "files": list(self.stamps),
            "reloads": self.loads,
            "failures": self.failures,
            "fault": self.fault,
            **self.details(),
        }


@final
class Reload:
    """The subjects of a node, and the timer that looks at their files."""

    def __init__(self, sources: Sequence[ReloadSource], loop: asyncio.AbstractEventLoop) -> None:
        self._sources = sources
        self._loop = loop
        self._timer = loop.call_later(CHECK_S, self._check)

    def now(self) -> None:
        """Reload all sources, changed or not."""
        for source in self._sources:
            source.reload()

    def stop(self) -> None:
        """Stop checking the files."""
        self._timer.cancel()

    def state(self) -> list[dict[str, object]]:
        """The state of each source, for the admin port."""
        return [source.state() for source in self._sources]

    def counters(self) -> dict[str, int]:
        """Counters for /metrics."""
        return {
            "reloads_total": sum(source.loads for source in self._sources),
            "reload_failures_total": sum(source.failures for source in self._sources),
            "reload_broken": sum(bool(source.fault) for source in self._sources),
        }

    def _check(self) -> None:
        for source in self._sources:
            if source.read_stamps() != source.stamps:
                source.reload()
        self._timer = self._loop.call_later(CHECK_S, self._check)


def _stamp(file: str) -> Stamp | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
