"""The way of the lines of the audit log to its file, once the process has opened one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final


@final
class AuditSink:
    """The writer of the audit log.

    write   takes one line, and never waits; None: there is no audit log, and no line is made
    """

    def __init__(self) -> None:
        self.write: Callable[[str], None] | None = None

    def open(self, write: Callable[[str], None] | None) -> None:
        """Let `write` take the lines from now on; None: nobody."""
        self.write = write


SINK: Final = AuditSink()
"""That of this process."""
