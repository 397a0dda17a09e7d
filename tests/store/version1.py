"""A data directory of batch format version 1, as the code of commit 268ce45 left it after a kill.

`data/version1.tar.gz` holds the files: three segments, a checkpoint with a snapshot, index and key index. It has three lives:
the first ended cleanly, the second and the third with a kill. Each life sent 60 messages to `orders` (even and odd ones to
queues 0 and 1), 5 to `page`, a timer, a half message and a lite message, changed state, and leased 10 orders of queue 0 to
group `g`, of which it settled 8. The last one committed the half message of the first.
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Final

from store.settings import StoreSettings
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.platter import Content
from tests.store.driver import Driver

ARCHIVE: Final = Path(__file__).parent / "data" / "version1.tar.gz"
WALL_MS: Final = 1_700_000_006_312
"""When the last life was killed."""
CONFIG: Final = StoreSettings(
    segment_bytes=16_384, index_segment_bytes=4_096, tail_rows_max=32, checkpoint_bytes=20_000, checkpoint_ms=1_000
)


def disk(path: Path = ARCHIVE, wall_ms: int = WALL_MS) -> MemoryDisk:
    """A disk with the files of an archive, at the time when they were left."""
    found = MemoryDisk(VirtualClock(wall_ms))
    with tarfile.open(path) as archive:
        for member in archive:
            content = archive.extractfile(member)
            assert content is not None
            found.files[member.name] = Content(content.read())
    return found


def opened(without: tuple[str, ...] = ()) -> Driver:
    """The store on these files; those that begin with one of `without` are left out."""
    found = disk()
    found.files = {name: content for name, content in found.files.items() if not name.startswith(without)}
    return Driver(CONFIG, found)
