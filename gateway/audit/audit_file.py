"""The file of the audit log: written by a thread of its own, for its owner alone, in parts of bounded size.

Traffic never waits for it: lines that find no room, on the disk or in the queue of the thread, are counted and dropped.
"""

from __future__ import annotations

import logging
import os
import queue
from contextlib import suppress
from io import TextIOWrapper
from logging.handlers import QueueHandler, QueueListener, RotatingFileHandler
from pathlib import Path
from typing import Final, final

from gateway.audit.audit_sink import SINK

LINES_MAX: Final = 10_000
"""Lines that wait for the thread."""

CLOSE_S: Final = 2.0
"""Seconds for what waits at the end of the process."""

log = logging.getLogger("headgate.audit-file")


@final
class _Queue(QueueHandler):
    """Hands lines to the thread. `lost`: lines that found the queue full."""

    def __init__(self, lines: queue.Queue[logging.LogRecord | None]) -> None:
        super().__init__(lines)
        self.lost = 0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is the library's
        """Counts the line: the queue is full."""
        self.lost += 1


@final
class _LineFile(RotatingFileHandler):
    """The file, written in a thread. `lost`: lines that could not be written; `is_broken`: the last line could not."""

    def __init__(self, path: Path, bytes_max: int, files_max: int) -> None:
        super().__init__(path, maxBytes=bytes_max, backupCount=files_max, encoding="utf-8", delay=True)
        self.written = self.lost = 0
        self.is_broken = False

    def _open(self) -> TextIOWrapper:
        Path(self.baseFilename).parent.mkdir(0o700, parents=True, exist_ok=True)
        return open(self.baseFilename, "a", encoding="utf-8", opener=_for_owner)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        lost = self.lost
        super().emit(record)
        if self.lost == lost:
            self.written += 1
            if self.is_broken:
                self.is_broken = False
                log.warning("the audit log %s is written again; %d lines are lost", self.baseFilename, lost)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is the library's
        """Counts the line: the disk is full, or the file cannot be opened."""
        self.lost += 1
        if not self.is_broken:
            self.is_broken = True
            log.exception("the audit log %s cannot be written: its lines are lost until it can", self.baseFilename)


@final
class _Thread(QueueListener):
    """Writes lines as they come."""

    def __init__(self, lines: queue.Queue[logging.LogRecord | None], file: _LineFile) -> None:
        super().__init__(lines, file)
        self._lines = lines

    def stop(self) -> None:
        """Write what waits, within CLOSE_S: a disk that hangs must not keep the process from ending."""
        with suppress(queue.Full):
            self._lines.put(None, timeout=CLOSE_S)
        if self._thread is not None:
            self._thread.join(CLOSE_S)
            self._thread = None


@final
class AuditFile:
    """Takes the lines of the process, from `open` to `close`."""

    def __init__(self) -> None:
        self._queue: _Queue | None = None
        self._file: _LineFile | None = None
        self._thread: _Thread | None = None

    def open(self, path: Path, bytes_max: int, files_max: int) -> None:
        """Write to `path` from now on; the file is made with its first line."""
        lines: queue.Queue[logging.LogRecord | None] = queue.Queue(LINES_MAX)
        self._queue, self._file = _Queue(lines), _LineFile(path, bytes_max, files_max)
        self._file.setFormatter(logging.Formatter("%(message)s"))
        self._thread = _Thread(lines, self._file)
        self._thread.start()
        SINK.open(self._write)

    def _write(self, text: str) -> None:
        if self._queue is not None:
            self._queue.handle(logging.makeLogRecord({"msg": text}))

    def close(self) -> None:
        """Write what waits, and end the thread."""
        if self._queue is None or self._file is None or self._thread is None:
            return
        SINK.open(None)
        self._thread.stop()
        self._file.close()
        self._queue = self._thread = None

    def figures(self) -> dict[str, float]:
        """Counters of written and lost lines, by their names on the metrics page."""
        if self._queue is None or self._file is None:
            return {}
        return {"audit_lines_total": self._file.written, "audit_lines_lost_total": self._queue.lost + self._file.lost}


def _for_owner(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


AUDIT_FILE: Final = AuditFile()
"""That of this process."""
