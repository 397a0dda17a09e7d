"""Files that were deleted, and that a power failure has brought back, are no damage: check says so, and repair does nothing."""

from __future__ import annotations

from store.offline.check import Severity
from tests.simulation.kit.clock import VirtualClock
from tests.store.faults.run import moments
from tests.store.faults.work import script
from tests.store.offline.test_repair import check, repair


def test_segments_that_a_power_failure_brings_back_are_notes() -> None:
    """Whichever of them come back: a hole between them and the rest of the log is none of the log."""
    history = moments(1, script, lambda _: True)
    last = history[-1]
    seen = {name: content for moment in history for name, content in moment.disk.files.items() if name.startswith("log/")}
    gone = sorted(name for name in seen if name not in last.disk.files and name[4:].isdigit())
    assert len(gone) > 2
    before = check(last.disk.killed(VirtualClock(last.now_ms)))
    assert {found.severity for found in before} <= {Severity.NOTE}
    for some in range(1, 1 << len(gone)):
        disk = last.disk.killed(VirtualClock(last.now_ms))
        back = [name for at, name in enumerate(gone) if some >> at & 1]
        for name in back:
            disk.files[name] = seen[name].copy()
        found = check(disk)
        assert {each.severity for each in found} == {Severity.NOTE}, found
        assert {each.file for each in found} >= set(back)
        assert repair(disk).done == []


def test_a_cut_that_was_interrupted_is_left_as_it_is() -> None:
    last = moments(1, script, lambda _: False)[-1]
    disk = last.disk.killed(VirtualClock(last.now_ms))
    name = max(name for name in disk.files if name.startswith("log/"))
    disk.files[f"{name}.cut"] = disk.files[name].copy()
    assert {each.severity for each in check(disk)} <= {Severity.NOTE}
