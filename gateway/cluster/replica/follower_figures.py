"""Metrics of a replica that follows."""

from __future__ import annotations

from domain.controller.group import StoreGroup
from domain.limits import SECOND_NS
from domain.replication.ports import FollowerLog
from store.replication.following import Following


def follower_figures(
    log: FollowerLog, following: Following | None, group: StoreGroup | None, own: int, now_ns: int
) -> dict[str, float]:
    """Figures by their names in `gateway.observe.counter_texts.COUNTERS`.

    group   group as last reported by a controller; None: not yet
    own     id of the replica; 0: it has none yet
    """
    replica = None if group is None else group.replica(own)
    found: dict[str, float] = {
        "replica_follows": int(following is not None and following.follows),
        "replica_written_bytes": log.written,
        "replica_synced_bytes": log.synced,
        "replica_applied_bytes": log.applied,
        "replica_has_room": int(log.has_room),
    }
    if group is not None and replica is not None:
        found["replica_in_sync"] = int(group.is_in_sync(replica))
        found["replica_learner"] = int(replica.learner)
        found["replica_members"] = len(group.members)
    if following is not None and following.confirmed:
        found["replica_confirmed_bytes"] = following.confirmed
        found["replica_lag_bytes"] = max(following.confirmed - log.written, 0)
    if following is not None:
        found["replica_heard_age_seconds"] = max(now_ns - following.heard_ns, 0) / SECOND_NS
    return found
