"""What a replica says of what it has set aside."""

from __future__ import annotations

from pathlib import Path

from domain.limits import MILLISECOND_NS
from domain.set_aside import KeptAside
from gateway.runtime.aside_figure import LOOK_NS, AsideFigure
from tests.simulation.kit.clock import VirtualClock


def test_folders_and_their_bytes_are_counted_now_and_then(tmp_path: Path) -> None:
    clock = VirtualClock()
    figure = AsideFigure(tmp_path, clock)
    assert figure.look() == KeptAside(0, 0)
    for name, size in (("log-5/log/a", 10), ("log-5/log/b", 20), ("behind/log/c", 5)):
        path = tmp_path / "set-aside" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
    assert figure.look() == KeptAside(0, 0), "a heartbeat does not look at the disk each time"
    clock.run_for(LOOK_NS // MILLISECOND_NS + 1)
    assert figure.look() == KeptAside(2, 35)
