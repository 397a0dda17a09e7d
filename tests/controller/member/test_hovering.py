"""A controller whose disk hovers round its bound: a pair of lines, not one for each time."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from typing import cast

import pytest

from controller.member.log_writer import RaftLogWriter
from controller.raft.persisted import RaftStorage
from controller.raft.ready import Ready
from tests.simulation.kit.clock import VirtualClock

NOTHING = Ready(None, None, False, (), (), (), (), ())


class FlushesOrNot:
    """A storage whose next `left` flushes find no room."""

    left = 0

    def flush(self, done: Callable[[OSError | None], None]) -> None:
        self.left -= 1
        done(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if self.left >= 0 else None)


def test_a_controller_whose_disk_has_room_for_a_moment_only_has_no_line_each_time(caplog: pytest.LogCaptureFixture) -> None:
    clock, storage = VirtualClock(), FlushesOrNot()
    writer = RaftLogWriter(cast(RaftStorage, storage), clock, pytest.fail)
    caplog.set_level("WARNING", "headgate.controller")
    for _ in range(20):
        storage.left = 1
        written: list[int] = []
        writer.write(NOTHING, partial(written.append, 1))
        clock.run_for(2_000)
        assert written == [1]
    clock.run_for(61_000)
    lines = [each.getMessage() for each in caplog.records]
    assert [line.split(":")[0] for line in lines] == [
        "this controller takes no part", "this controller takes part again",
        "this controller takes no part", "this controller takes part again",
    ]  # fmt: skip
    assert "No space left" in lines[0]
    assert "19 times" in lines[-1]
