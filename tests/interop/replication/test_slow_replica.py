"""Replicas that are slow without being dead, as processes: leadership leaves them, and sends are fast again."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from controller.slow_replicas import record
from controller.slow_replicas.detector import GreyDetector
from controller.slow_replicas.ports import Move
from controller.slow_replicas.replay import replay
from domain.controller.group import StoreGroup
from domain.controller.health import Fitness
from domain.controller.request import ReplicaHeard
from gateway.cluster.operator.controllers import ClusterControllers
from tests.interop.controller.controllers import until
from tests.interop.node import Node
from tests.interop.replication.chaos.proxy import LoopbackProxy
from tests.interop.replication.group import StoreGroupNodes
from tests.interop.replication.slow_disk import SlowDisk
from tests.interop.warm import headgate
from tests.store.faults.soak import SOAK

pytestmark = pytest.mark.interop

MOVED_S = 40.0
"""docs/controllers.md says ten seconds; the machine of the tests has other work."""
SLOW_MS = 600
FAR_MS = 400
"""Each way. A member that says nothing for 1.5 s would be left out by its leader, slow or not."""
log = logging.getLogger("tests")


class Load:
    """One sender. `waits`: when each send began, and how long it took until somebody acknowledged it."""

    def __init__(self, group: StoreGroupNodes) -> None:
        self.waits: list[tuple[float, float]] = []
        self._group = group
        self._ends = False
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends = True
        self._thread.join()

    def _send(self) -> None:
        while not self._ends:
            began = time.monotonic()
            self.waits.append((began, self._group.send("orders", f"{len(self.waits)}")))
            time.sleep(0.02)

    def percentile_ms(self, part: float, since: float, until: float = 1e9) -> float:
        """A percentile of the sends that began in this time."""
        found = sorted(took for began, took in list(self.waits) if since <= began < until)
        assert len(found) >= 5, f"{len(found)} sends only"
        return found[int(len(found) * part)] * 1_000


def group_of(group: StoreGroupNodes) -> tuple[StoreGroup, tuple[ReplicaHeard, ...]]:
    """The group, and what the controllers think of its replicas."""
    controllers = ClusterControllers(group.controllers.addresses, None, None)
    try:
        return controllers.group("broker-a")
    finally:
        controllers.close()


def await_move(group: StoreGroupNodes, source: int, load: Load, figure: str) -> None:
    """Wait until somebody else leads, and is not held up any more by the replica that was slow."""
    began = time.monotonic() - 1
    until(lambda: group_of(group)[0].leader not in (0, source), "somebody else leads", MOVED_S)
    moved_s = time.monotonic() - began
    until(lambda: source not in group_of(group)[0].in_sync, "nobody waits for the slow replica", MOVED_S)
    time.sleep(2)
    since = time.monotonic()
    time.sleep(6)
    log.info(
        "moved after %.1f s; sends before: p50 %.0f ms, p99 %.0f ms; behind it: p50 %.0f ms, p99 %.0f ms", moved_s,
        load.percentile_ms(0.5, 0, began), load.percentile_ms(0.99, 0, began), load.percentile_ms(0.5, since),
        load.percentile_ms(0.99, since),
    )  # fmt: skip
    assert load.percentile_ms(0.5, since) < SLOW_MS / 2
    words = {each.report.id: each for each in group_of(group)[1]}
    assert words[source].standing.fitness is Fitness.SLOW
    assert figure in words[source].standing.why
    text = "".join(node.text() for node in group.controllers.nodes)
    assert f"replica {source} leads and is out of the ordinary ({figure} " in text or f", {figure} " in text


def await_ordinary(group: StoreGroupNodes) -> None:
    """Wait until the replicas have said often enough how they are."""
    group.await_members(1, 2, 3)
    until(lambda: all(each.word.figures is not None for each in group_of(group)[1]), "the replicas say how they are")
    time.sleep(8)


def test_leadership_leaves_a_slow_disk_and_sends_are_fast_again(tmp_path: Path) -> None:
    group = StoreGroupNodes(tmp_path, 3)
    disks = [SlowDisk(tmp_path / f"disk-{number}") for number in (1, 2, 3)]
    for node, disk in zip(group.nodes, disks, strict=True):
        node.environment.update(disk.environment)
    with group, Load(group) as load:
        await_ordinary(group)
        source = group_of(group)[0].leader
        slow = disks[group.nodes.index(group.leader())]
        slow.slow(SLOW_MS)
        await_move(group, source, load, "sync_us")
        lines = _record(group)
        compared = replay(lines, GreyDetector())
        moves = [(ms, each.group, each.source, each.target) for ms, each in compared.decided if isinstance(each, Move)]
        assert moves == compared.recorded != []
        assert {each["of"][1] for each in lines if "of" in each} == {1, 2, 3}
        status = _status(group)
        assert f"replica {source} is passed over: sync_us" in status
        if SOAK:
            slow.well()
            until(lambda: len(group.members()) == 3, "it is well, and counts again", 180)
            assert all(each.standing.fitness is Fitness.FIT for each in group_of(group)[1])


@pytest.mark.skipif(not SOAK, reason="SOAK=1 runs it: it takes half a minute")
def test_leadership_leaves_a_process_that_stalls(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 3) as group, Load(group) as load:
        await_ordinary(group)
        source, node = group_of(group)[0].leader, group.leader()
        with _Stalls(node, lambda: group_of(group)[0].leader == source):
            until(lambda: group_of(group)[0].leader not in (0, source), "somebody else leads", MOVED_S)
        await_move(group, source, load, "turn_us")


def slow_paths(group: StoreGroupNodes, stack: ExitStack) -> list[LoopbackProxy]:
    """Start the group with a proxy before the replication port of each node."""
    paths: list[LoopbackProxy] = []
    for node in group.nodes:
        node.claim()
        paths.append(LoopbackProxy(0, node.port("replication")))
        stack.callback(paths[-1].close)
        node.environment["HEADGATE_REPLICATION_ADDRESS"] = f"127.0.0.1:{paths[-1].port}"
    stack.enter_context(group)
    return paths


@pytest.mark.skipif(not SOAK, reason="SOAK=1 runs it: it takes half a minute")
def test_leadership_leaves_a_slow_path_to_the_followers(tmp_path: Path) -> None:
    group = StoreGroupNodes(tmp_path, 3)
    with ExitStack() as stack:
        paths = slow_paths(group, stack)
        load = stack.enter_context(Load(group))
        await_ordinary(group)
        source = group_of(group)[0].leader
        paths[group.nodes.index(group.leader())].delay_s = SLOW_MS / 1_000
        await_move(group, source, load, "ack_us")


def test_a_follower_to_which_the_path_is_slow_is_not_waited_for(tmp_path: Path) -> None:
    group = StoreGroupNodes(tmp_path, 3, controllers=1)
    with ExitStack() as stack:
        paths = slow_paths(group, stack)
        load = stack.enter_context(Load(group))
        await_ordinary(group)
        found = group_of(group)[0]
        path = paths[group.nodes.index(group.leader())]
        number, far = next((at, node) for at, node in enumerate(group.nodes) if paths[at] is not path)
        (own,) = [each.id for each in found.replicas if each.address.endswith(f":{paths[number].port}")]
        path.marked_by = f"127.0.0.1:{far.port('readers')}".encode()
        path.delay_s = FAR_MS / 1_000
        until(lambda: own not in group_of(group)[0].in_sync, "nobody waits for the far one", MOVED_S)
        time.sleep(1)
        since = time.monotonic()
        time.sleep(4)
        assert load.percentile_ms(0.5, since) < FAR_MS
        after, words = group_of(group)
        assert (after.leader, len(after.in_sync)) == (found.leader, 2)
        standing = next(each.standing for each in words if each.report.id == own)
        assert standing.fitness is Fitness.SLOW
        assert "path_us" in standing.why
        text = "".join(node.text() for node in group.controllers.nodes)
        assert f"replica {own}" in text
        assert "(path_us " in text
        if SOAK:
            path.delay_s = 0.0
            until(lambda: len(group.members()) == 3, "the path is well, and it counts again", 180)


class _Stalls:
    """A process that stands still for 300 ms out of each 400, while `goes_on` says so."""

    def __init__(self, node: Node, goes_on: Callable[[], bool]) -> None:
        self._pid = node.pid
        self._ends = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ends = True
        self._thread.join()

    def _run(self) -> None:
        while not self._ends:
            os.kill(self._pid, signal.SIGSTOP)
            time.sleep(0.3)
            os.kill(self._pid, signal.SIGCONT)
            time.sleep(0.1)


class _Folder:
    """What `record.read` needs of a disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read_all(self, name: str) -> bytes | None:
        """Disk.read_all."""
        file = self._folder / name
        return file.read_bytes() if file.exists() else None


def _record(group: StoreGroupNodes) -> list[dict[str, Any]]:
    """The record of the controller that leads."""
    leader = group.controllers.leader()
    (folder,) = {each.parent.parent for each in leader.data.glob("**/figures/*")}
    return cast(list[dict[str, Any]], record.read(cast(Any, _Folder(folder))))


def _status(group: StoreGroupNodes) -> str:
    """What `headgate cluster status` prints."""
    return headgate("cluster", "status", "--controller", ",".join(group.controllers.addresses)).stdout
