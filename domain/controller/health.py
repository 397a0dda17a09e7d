"""What a replica measures of itself: it tells when a disk, a network path or a process is slow without being dead."""

from __future__ import annotations

from typing import Final, NamedTuple

UNMEASURED: Final = -1
"""In place of a figure of which there was nothing to measure."""


class ReplicaFigures(NamedTuple):
    """What one replica measured since its last heartbeat, in microseconds; UNMEASURED where nothing happened.

    sync_us   mean time of a sync of the log
    ack_us    of a leader: mean time from a write to the answer of the fastest follower; of a follower: UNMEASURED
    turn_us   longest turn of the event loop
    errors    reads and writes that the disk has failed, and calls that timed out
    """

    sync_us: int = UNMEASURED
    ack_us: int = UNMEASURED
    turn_us: int = UNMEASURED
    errors: int = 0
