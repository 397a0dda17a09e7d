"""The settings of a raft node. A tick is the driver's; 100 ms with these defaults gives elections after 1 to 2 seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RaftSettings:
    """Times and limits. Times should be equal on all nodes of a group; safety does not depend on them.

    election_ticks            ticks without a word of the leader before a follower asks for an election: this many, and up to
                              twice as many by lot. A leader that no majority has answered for this long steps down.
    parted_ticks              ticks without a word of a leader whose process has ended its connection, after which a follower
                              votes for another one; above heartbeat_ticks and at most election_ticks. One tick later the
                              first of the voters asks, two more ticks later the second one: no two ask at a time
    heartbeat_ticks           ticks between heartbeats; lower than election_ticks
    append_bytes_max          bytes of the entries in one message; a single larger entry still goes
    inflight_messages_max     messages with entries that are sent to one follower and not answered
    inflight_bytes_max        bytes of entries that are sent to one follower and not answered
    entry_bytes_max           bytes of one command
    uncommitted_bytes_max     bytes of entries that a leader takes before they are committed
    reads_waiting_max         reads that wait for confirmation at a leader
    promotion_lag_max         entries that a learner may lack when it is made a voter
    """

    election_ticks: int = 10
    parted_ticks: int = 3
    heartbeat_ticks: int = 1
    append_bytes_max: int = 1 << 20
    inflight_messages_max: int = 64
    inflight_bytes_max: int = 8 << 20
    entry_bytes_max: int = 1 << 20
    uncommitted_bytes_max: int = 16 << 20
    reads_waiting_max: int = 10_000
    promotion_lag_max: int = 64

    def __post_init__(self) -> None:
        """Raises ValueError for settings that cannot work."""
        if not 0 < self.heartbeat_ticks < self.election_ticks:
            raise ValueError("heartbeat_ticks is above 0 and below election_ticks")
        if not self.heartbeat_ticks < self.parted_ticks <= self.election_ticks:
            raise ValueError("parted_ticks is above heartbeat_ticks and at most election_ticks")
        limits = (
            self.append_bytes_max, self.inflight_messages_max, self.inflight_bytes_max, self.entry_bytes_max,
            self.uncommitted_bytes_max, self.reads_waiting_max,
        )  # fmt: skip
        if min(limits) < 1 or self.promotion_lag_max < 0:
            raise ValueError("limits are positive")
