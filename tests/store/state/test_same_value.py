"""A change of state that changes nothing is not written, and is answered when what it repeats is durable."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from domain.errors import Failure
from domain.store.store_event import unheard
from domain.store.store_ports import Expected, StateChange
from domain.topic.topic import Group, Topic
from store.engine import open_store
from store.opening.open_store import OpenStore
from store.settings import StoreSettings
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk

Done = Callable[[None | Failure], None]


class Stage:
    """A store, and the bytes that its log has grown by."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.disk = MemoryDisk(self.clock)
        self.store: OpenStore = open_store(self.disk, self.clock, StoreSettings(), unheard)
        self.clock.run_for(20)

    def written(self, act: Callable[[Done], None]) -> int:
        before = len(self.disk.writes)
        answers: list[None | Failure] = []
        act(answers.append)
        self.clock.run_for(20)
        assert answers == [None]
        return sum(size for name, size in self.disk.writes[before:] if name.startswith("log/"))

    def put(self, *changes: tuple[bytes, bytes | None]) -> int:
        return self.written(lambda done: self.store.state.put([StateChange("a", *change) for change in changes], done))


@pytest.mark.parametrize("size", [1, 10, 5_000])
def test_the_same_value_is_written_once(size: int) -> None:
    stage = Stage()
    assert stage.put((b"k", bytes(size)), (b"l", b"v")) > size
    assert stage.put((b"k", bytes(size))) == stage.put((b"l", b"v"), (b"k", bytes(size))) == 0
    assert stage.put((b"k", bytes(size)[:-1] + b"x")) > 0
    assert stage.put((b"k", bytes(size) + b"x")) > 0


def test_a_removal_of_nothing_is_not_written() -> None:
    stage = Stage()
    assert stage.put((b"k", None)) == 0
    stage.put((b"k", b"v"))
    assert stage.put((b"k", None)) > 0
    assert stage.put((b"k", None)) == 0


def test_changes_of_one_key_count_in_their_order() -> None:
    stage = Stage()
    stage.put((b"k", b"v"))
    assert stage.put((b"k", None), (b"k", b"v")) > 0
    found: list[object] = []
    stage.store.state.get("a", b"k", found.append)
    assert found == [b"v"]


def test_a_change_that_is_not_durable_yet_is_waited_for() -> None:
    stage = Stage()
    stage.put((b"k", b"old"))
    answers: list[str] = []
    put = stage.store.state.put
    put([StateChange("a", b"k", b"new")], lambda _: answers.append("new"))
    put([StateChange("a", b"k", b"old")], lambda _: answers.append("old"))
    put([StateChange("a", b"k", b"old")], lambda _: answers.append("again"))
    assert answers == []
    stage.clock.run_for(20)
    assert answers == ["new", "old", "again"]
    found: list[object] = []
    stage.store.state.get("a", b"k", found.append)
    assert found == [b"old"]


def test_a_condition_counts_also_when_nothing_changes() -> None:
    stage = Stage()
    stage.put((b"k", b"v"))
    found: list[object] = []
    stage.store.state.put([StateChange("a", b"k", b"v")], found.append, [Expected("a", b"k", b"x")])
    assert isinstance(found[0], Failure)


def test_a_topic_and_a_group_that_are_the_same_are_written_once() -> None:
    stage = Stage()
    metadata = stage.store.metadata
    topic, group = Topic("t", 3, 3, created_ms=5), Group("g", created_ms=5)
    assert stage.written(lambda done: metadata.put_topic(topic, done)) > 0
    assert stage.written(lambda done: metadata.put_topic(Topic("t", 3, 3, created_ms=5), done)) == 0
    assert stage.written(lambda done: metadata.put_topic(Topic("t", 4, 4, created_ms=5), done)) > 0
    assert stage.written(lambda done: metadata.put_group(group, done)) > 0
    assert stage.written(lambda done: metadata.put_group(Group("g", created_ms=5), done)) == 0
    assert stage.written(lambda done: metadata.put_group(Group("g", retry_max=3, created_ms=5), done)) > 0
    metadata.delete_topic("t", lambda _: None)
    assert stage.written(lambda done: metadata.put_topic(Topic("t", 4, 4, created_ms=5), done)) > 0
    assert metadata.topic("t") is not None, "it was made again behind its deletion"
