"""Counts of waiting receives, and request modes of groups."""

from __future__ import annotations

import pytest

from domain.admin.group import (
    CountWaitingMessages,
    ListRequestModes,
    QueryRequestMode,
    RequestMode,
    RequestModeList,
    SetRequestMode,
    WaitingCount,
)
from domain.admin.topic import PutTopic
from domain.command import Receive
from domain.errors import ErrorCode
from domain.event import Done
from domain.nameserver.route import Registration, TopicQueues
from domain.topic.topic import Topic
from gateway.usecase.topics_and_groups.modes import Modes
from nameserver.table import RouteTable
from tests.gateway.usecase.bench import Bench, code


def test_receives_that_wait_are_counted_by_group_topic_and_queue(bench: Bench) -> None:
    bench.ask(PutTopic(1, Topic("t", 4, 4)))
    for queue_id in (-1, -1, 2):
        assert bench.ask(Receive(1, "g", "t", 1, 30_000, wait_ms=5_000, queue_id=queue_id)) == []
    counts = {queue_id: bench.ask(CountWaitingMessages(2, "g", "t", queue_id)) for queue_id in (-1, 0, 2)}
    assert counts == {-1: [WaitingCount(2, 2)], 0: [WaitingCount(2, 0)], 2: [WaitingCount(2, 1)]}
    assert bench.ask(CountWaitingMessages(2, "other", "t", -1)) == [WaitingCount(2, 0)]


@pytest.fixture
def modal(bench: Bench) -> Bench:
    """A bench with a registered broker that has the topic `theirs`."""
    routes = RouteTable()
    routes.register(Registration("c", "b-x", 0, "x:1", topics=dict.fromkeys(("theirs", "b-x"), TopicQueues("b-x", 4, 4, 6))), 0)
    bench.handler.add(Modes(bench.handler.groups, bench.store.metadata, routes, bench.store.state))
    return bench


def test_modes_are_what_was_set(modal: Bench) -> None:
    assert modal.ask(ListRequestModes(1)) == [RequestModeList(1, [])]
    assert code(modal.ask(SetRequestMode(1, "g", "a", "POP", 3))) is ErrorCode.TOPIC_NOT_FOUND
    for name in ("a", "b"):
        assert modal.ask(PutTopic(1, Topic(name, 4, 4))) == [Done(1)]
    assert code(modal.ask(SetRequestMode(1, "bad name", "a", "POP", 3))) is ErrorCode.GROUP_ILLEGAL
    assert code(modal.ask(SetRequestMode(1, "g", "%RETRY%g", "POP", 3))) is ErrorCode.NOT_ALLOWED
    assert code(modal.ask(SetRequestMode(1, "g", "a", "PUSH", 3))) is ErrorCode.ARGUMENT_ILLEGAL
    for topic, group, mode in (("b", "g", "POP"), ("a", "g", "POP"), ("b", "g", "PULL")):
        assert modal.ask(SetRequestMode(1, group, topic, mode, 3)) == [Done(1)]
    assert modal.ask(ListRequestModes(1)) == [RequestModeList(1, [("a", "g", "POP", 3), ("b", "g", "PULL", 3)])]


def test_a_topic_of_another_broker_has_a_mode_too(modal: Bench) -> None:
    assert modal.ask(QueryRequestMode(1, "g", "theirs")) == [RequestMode(1, "PULL", 0)]
    assert modal.ask(SetRequestMode(1, "g", "theirs", "POP", 2)) == [Done(1)]
    assert modal.ask(QueryRequestMode(1, "g", "theirs")) == [RequestMode(1, "POP", 2)]
