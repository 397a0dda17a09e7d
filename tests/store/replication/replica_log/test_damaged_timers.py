"""A timer whose record is damaged at the leader: the other replicas have its bytes, so it waits, and is not left out.

Retention, which has to write it again before it deletes its segment, waits too.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from domain.message.message import Message
from domain.topic.topic import Durability
from store.delay.wheel import MEND_MS
from store.settings import StoreSettings
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.store.replication.replica_log.pair import CONFIG, Leading, opened

RETAINED_MS = 5_000
RETAINING = replace(CONFIG, retention_ms=RETAINED_MS, retention_check_ms=500)


class Damaged:
    """A leader of which a timer's record is damaged; two more timers are due behind it."""

    def __init__(self, config: StoreSettings = CONFIG, first_ms: int = 1_000) -> None:
        self.clock = VirtualClock()
        self.disk = MemoryDisk(self.clock)
        self.driver = Leading(opened(self.disk, self.clock, config), self.disk, self.clock, 1).alone().driver
        self.driver.topic("t", Durability.FLUSHED)
        now = self.clock.wall_ms()
        for body, after_ms in ((b"damaged", first_ms), (b"next", first_ms + 200), (b"last", first_ms + 2_000)):
            self.driver.append([Message("t", body, b"TIMER_DELIVER_MS\x01%d\x02" % (now + after_ms), queue_id=0)])
        self._name = next(name for name, content in self.disk.files.items() if b"damaged" in content.data)
        self._at = bytes(self.disk.files[self._name].data).index(b"damaged")
        self.flip()

    def flip(self) -> None:
        self.disk.flip(self._name, self._at)


def test_it_is_delivered_when_it_is_whole_again_and_before_those_behind_it() -> None:
    case = Damaged()
    case.clock.run_for(5_000)
    assert case.driver.bodies("t") == []
    case.flip()
    case.clock.run_for(2_000)
    assert case.driver.bodies("t") == [b"damaged", b"next", b"last"]


@pytest.mark.parametrize("share", [0.9, 1.1])
def test_it_does_not_hold_back_the_others_for_ever(share: float) -> None:
    case = Damaged()
    case.clock.run_for(share * MEND_MS)
    assert case.driver.bodies("t") == ([] if share < 1 else [b"next", b"last"])


def test_retention_deletes_its_segment_when_it_is_whole_again_and_not_before() -> None:
    case = Damaged(RETAINING, 60_000)
    first = min(name for name in case.disk.names("log") if name.isdigit())

    def pass_by(seconds: int) -> None:
        for _ in range(seconds):
            case.driver.send("t", b"x" * 2_000)
            case.clock.run_for(1_000)

    pass_by(4 * RETAINED_MS // 1_000)
    assert f"log/{first}" in case.disk.files, "a timer in it cannot be written again"
    assert case.driver.store.figures()["retention_segments_deleted_total"] == 0
    case.flip()
    pass_by(2 * RETAINED_MS // 1_000)
    assert f"log/{first}" not in case.disk.files
    case.clock.run_for(60_000)
    timers = [each for each in case.driver.bodies("t") if not each.startswith(b"x")]
    assert timers == [b"damaged", b"next", b"last"]
