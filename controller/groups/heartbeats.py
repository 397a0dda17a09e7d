"""Heartbeats of replicas at one controller: an input of elections that is not replicated.

Brokers send them to every controller, so a controller that takes over the lead has them already.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, final

from controller.groups.election import electorate
from domain.controller.group import UNKNOWN, ReplicaReport, StoreGroup
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import ReplicaHeard

TIMEOUT_MS: Final = 10_000
"""Validity of a heartbeat that names no time."""
TIMEOUT_MS_MIN: Final = 1_000
TIMEOUT_MS_MAX: Final = 3_600_000
REPLICAS_HEARD_MAX: Final = 16_384
"""Limit on replicas whose heartbeats are kept. The caller leaves out those of unknown replicas."""
SWEEP_MS: Final = 1_000
"""Least time between two walks over all heartbeats, in search of those that are over, while the limit is reached."""
TOGETHER_MS: Final = 500
"""Connections that end within this time may have one cause."""
BEATS_MISSED: Final = 5
"""Part of the timeout within which a leader sends another heartbeat after the end of a connection: replicas of Headgate and
brokers of Apache send ten in a timeout."""
NEVER: Final = -TIMEOUT_MS_MAX
"""Time of the last heartbeat of a replica whose connection has ended."""


class HeartbeatKept(NamedTuple):
    """The last heartbeat of a replica.

    timeout_ms   its validity
    word         what the replica says
    connection   its connection; None after the end of that
    since_ms     begin of the heartbeats over this connection without a pause of half the timeout
    ended_ms     end of the last connection, this one or the one before; NEVER: none has ended
    last_ms      time of the heartbeat, also after the end of its connection
    """

    at_ms: int
    timeout_ms: int
    word: ReplicaWord
    connection: object
    since_ms: int
    ended_ms: int = NEVER
    last_ms: int = 0


_Replica = tuple[str, int]


@final
class Heartbeats:
    """The heartbeats that one controller has received. `now_ms`: monotonic milliseconds from the caller.

    A replica without a heartbeat counts as dead only TIMEOUT_MS after the start: a controller that has just started does not
    know the live leaders and must not depose them.

    dropped   heartbeats not kept: of unknown replicas, of a second process of a live replica, or beyond REPLICAS_HEARD_MAX
    _by       connection -> the replicas whose last heartbeat came over it, until it ends
    _in       group -> its replicas that have sent heartbeats
    """

    def __init__(self, now_ms: int) -> None:
        self._since_ms = now_ms
        self._swept_ms = now_ms - SWEEP_MS
        self._heard: dict[_Replica, HeartbeatKept] = {}
        self._by: dict[object, dict[_Replica, None]] = {}
        self._in: dict[str, dict[_Replica, None]] = {}
        self.dropped = 0

    def heard(self, group: str, word: ReplicaWord, timeout_ms: int, connection: object, now_ms: int) -> None:
        """A heartbeat has come. A timeout of 0 or less means TIMEOUT_MS."""
        if self.runs_elsewhere(group, word.report.id, word.run, now_ms):
            self.dropped += 1
            return
        timeout_ms = max(TIMEOUT_MS_MIN, min(timeout_ms if timeout_ms > 0 else TIMEOUT_MS, TIMEOUT_MS_MAX))
        key = (group, word.report.id)
        if key not in self._heard and len(self._heard) >= REPLICAS_HEARD_MAX:
            self._sweep(now_ms)
            if len(self._heard) >= REPLICAS_HEARD_MAX:
                self.dropped += 1
                return
        since_ms, ended_ms = now_ms, NEVER
        before = self._heard.get(key)
        if before is not None:
            is_same = before.connection is connection
            if is_same and now_ms - before.at_ms <= timeout_ms // 2:
                since_ms = before.since_ms
            ended_ms = before.ended_ms if is_same or before.connection is None else now_ms
            self._unlink(key, before.connection)
        self._heard[key] = HeartbeatKept(now_ms, timeout_ms, word, connection, since_ms, ended_ms, now_ms)
        self._by.setdefault(connection, {})[key] = None
        self._in.setdefault(group, {})[key] = None

    def _unlink(self, key: _Replica, connection: object) -> None:
        """The last heartbeat of a replica does not count as one of `connection` any more."""
        keys = self._by.get(connection)
        if keys is not None:
            keys.pop(key, None)
            if not keys:
                del self._by[connection]

    def _sweep(self, now_ms: int) -> None:
        """Forget the heartbeats that are over, SWEEP_MS after the last time at the earliest."""
        if now_ms - self._swept_ms < SWEEP_MS:
            return
        self._swept_ms = now_ms
        for key in [key for key, heard in self._heard.items() if _is_over(heard, now_ms)]:
            self._unlink(key, self._heard.pop(key).connection)
            of_group = self._in[key[0]]
            del of_group[key]
            if not of_group:
                del self._in[key[0]]

    def runs_elsewhere(self, group: str, replica_id: int, run: str, now_ms: int) -> bool:
        """True while another process of a replica is alive than that of `run`; "" is any."""
        heard = self._heard.get((group, replica_id))
        return heard is not None and heard.word.run not in ("", run) and bool(run) and not _is_over(heard, now_ms)

    def closed(self, connection: object, now_ms: int) -> None:
        """Note the end of a connection: its replica counts as dead until its next heartbeat."""
        for key in self._by.pop(connection, ()):
            self._heard[key] = self._heard[key]._replace(at_ms=NEVER, connection=None, ended_ms=now_ms)

    def connections(self, group: str) -> list[object]:
        """Connections of the last heartbeats of a group's replicas, each once."""
        found = [self._heard[key].connection for key in self._in.get(group, ())]
        return list(dict.fromkeys(each for each in found if each is not None))

    def is_alive(self, group: str, replica_id: int, now_ms: int) -> bool:
        """True for a replica whose last heartbeat is valid."""
        heard = self._heard.get((group, replica_id))
        return heard is not None and not _is_over(heard, now_ms)

    def is_just_lost(self, group: str, replica_id: int, within_ms: int, now_ms: int) -> bool:
        """True for a replica that is not alive, and was it less than `within_ms` ago."""
        heard = self._heard.get((group, replica_id))
        if heard is None or not _is_over(heard, now_ms):
            return False
        return now_ms - _lost_ms(heard) < within_ms

    def lost_all(self, group: str, replica_id: int, within_ms: int, now_ms: int) -> bool:
        """True for a replica that is not alive, when this controller has lost all others together with it: no live replica has
        sent heartbeats ever since before the loss, without an end of a connection within TOGETHER_MS of it. The network of this
        controller has then failed less than `within_ms` ago, or the controller itself was paused."""
        lost = self._heard.get((group, replica_id))
        if lost is None or not _is_over(lost, now_ms) or (lost.at_ms == NEVER and now_ms - lost.ended_ms >= within_ms):
            return False
        lost_ms = _lost_ms(lost)
        return not any(
            each.since_ms <= lost_ms and each.ended_ms < lost_ms - TOGETHER_MS and not _is_over(each, now_ms)
            for keys in self._by.values()
            for each in map(self._heard.__getitem__, keys)
        )

    def is_dead(self, group: str, replica_id: int, now_ms: int) -> bool:
        """True for a replica that is not alive, or has sent no heartbeat since the start, TIMEOUT_MS ago. Before that, such a
        replica is neither alive nor dead."""
        if (group, replica_id) in self._heard:
            return not self.is_alive(group, replica_id, now_ms)
        return now_ms - self._since_ms > TIMEOUT_MS

    def live(self, group: StoreGroup, now_ms: int) -> tuple[ReplicaReport, ...]:
        """Reports of the live replicas of a group."""
        alive = [each.id for each in group.replicas if self.is_alive(group.name, each.id, now_ms)]
        return tuple(self._heard[group.name, each].word.report for each in alive)

    def reports(self, group: StoreGroup) -> tuple[ReplicaReport, ...]:
        """Last reports of a group's replicas, alive or not."""
        return tuple(each.word.report for each in self._kept(group))

    def _kept(self, group: StoreGroup) -> list[HeartbeatKept]:
        """Last heartbeats of a group's replicas, of those that have sent one."""
        return [self._heard[group.name, each.id] for each in group.replicas if (group.name, each.id) in self._heard]

    def words(self, group: StoreGroup, now_ms: int) -> tuple[ReplicaHeard, ...]:
        """Last heartbeats of a group's replicas, of those that have sent one."""
        return tuple(ReplicaHeard(each.word, _age_ms(each, now_ms), not _is_over(each, now_ms)) for each in self._kept(group))

    def dead(self, group: StoreGroup, now_ms: int) -> tuple[int, ...]:
        """The replicas of a group that are dead."""
        return tuple(each.id for each in group.replicas if self.is_dead(group.name, each.id, now_ms))

    def due(self, groups: Iterable[StoreGroup], now_ms: int) -> list[StoreGroup]:
        """Groups that need an election now: their leader is dead, or there is none, and a replica may win.

        A leader that seems dead stays while no other replica may lead: it may still serve. So does one that has only ended its
        connection to this controller, until it misses a heartbeat.
        """
        return [each for each in groups if self._is_due(each, now_ms)]

    def may_return(self, group: StoreGroup, now_ms: int) -> bool:
        """True for a leader whose connection has ended, while another one may bring its next heartbeat. A process that
        is dead has ended its connections to followers, too: such a report is the second witness of its death."""
        heard = self._heard.get((group.name, group.leader))
        if heard is None or heard.at_ms != NEVER or now_ms - heard.last_ms > heard.timeout_ms // BEATS_MISSED:
            return False
        others = (self._heard[key] for key in self._in[group.name])
        return not any(each.word.parted == group.leader and not _is_over(each, now_ms) for each in others)

    def _is_due(self, group: StoreGroup, now_ms: int) -> bool:
        if not group.members:
            return False  # the first election is asked for by a replica, as Apache's brokers do
        if group.leader and (not self.is_dead(group.name, group.leader, now_ms) or self.may_return(group, now_ms)):
            return False
        live = self.live(group, now_ms)
        return bool(electorate(group, live)) and not group.lacks_election(self.reports(group))


def _lost_ms(heard: HeartbeatKept) -> int:
    """Time of the loss of a replica that is not alive, monotonic ms."""
    return heard.ended_ms if heard.at_ms == NEVER else heard.at_ms + heard.timeout_ms


def _age_ms(heard: HeartbeatKept, now_ms: int) -> int:
    """Age of the last heartbeat of a replica; UNKNOWN after the end of its connection."""
    return now_ms - heard.at_ms if heard.at_ms != NEVER else UNKNOWN


def _is_over(heard: HeartbeatKept, now_ms: int) -> bool:
    return now_ms - heard.at_ms > heard.timeout_ms
